"""Drawings of a training, and the page that plays it back."""
