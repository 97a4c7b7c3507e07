"""The folded graph, as a drawing and as a page that steps through it."""
