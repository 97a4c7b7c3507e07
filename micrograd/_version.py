"""The version, which workers compare."""

__version__ = "1.0.0"
