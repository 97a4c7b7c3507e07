"""Large graphs, long runs, and Ctrl-C at any moment: `python -m tests.stress interrupt` presses it as often as told."""
