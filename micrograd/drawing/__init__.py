"""What drawings are made of: the graph folded into cards, their places, the SVG, and the page that steps through it.

`viz` is the module that people import.
"""
