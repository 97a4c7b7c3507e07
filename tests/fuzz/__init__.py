"""Random loops, compiled in many ways: `python -m tests.fuzz.loops` and `python -m tests.fuzz.scans`."""

from argparse import ArgumentParser


def command(prog: str, description: str, programs: int) -> ArgumentParser:
    """The options that both have."""
    parser = ArgumentParser(prog=prog, description=description)
    parser.add_argument("--programs", type=int, default=programs, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: %(default)s)")
    return parser
