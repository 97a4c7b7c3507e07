"""Random loops, compiled in many ways."""
