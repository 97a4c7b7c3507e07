"""`python -m tests.stress interrupt [TIMES]`."""

import argparse

from tests.stress import faults

parser = argparse.ArgumentParser(prog="python -m tests.stress", description="Press Ctrl-C during fit.")
parser.add_argument("command", choices=["interrupt"])
parser.add_argument("times", nargs="?", type=int, default=1000, help="in each backend (default: %(default)s)")
for line in faults.interrupt(parser.parse_args().times):
    print(line, flush=True)
