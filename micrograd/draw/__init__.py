"""Drawings: the graph folded into cards, DOT text, charts of a training, and the pages; `viz` is their public face."""
