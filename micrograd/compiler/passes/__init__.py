"""The compiler's passes: each is a function, and pipeline.py calls them in order."""
