"""Plumbing that knows nothing of gradients: trees, arguments, files, arrays, signals."""
