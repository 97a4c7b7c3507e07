"""The compiler's passes: a function each, called in the order of pipeline.py."""
