"""Drawings: the graph folded into cards, DOT text, charts of training runs, and pages; `viz` is their public face."""
