"""`python -m tests.stress interrupt` or `threads`."""

import argparse

from tests.stress import faults

COMMANDS = {
    "interrupt": (faults.interrupt, "Ctrl-C during fit", 1000, "times each"),
    "threads": (faults.threads, "networks that learn at once", 8, "threads"),
}

parser = argparse.ArgumentParser(prog="python -m tests.stress")
commands = parser.add_subparsers(required=True)
for name, (run, summary, count, unit) in COMMANDS.items():
    command = commands.add_parser(name, help=summary, description=summary)
    command.add_argument("count", nargs="?", type=int, default=count, help=f"{unit} (default {count})")
    command.set_defaults(run=run)
arguments = parser.parse_args()
for line in arguments.run(arguments.count):
    print(line, flush=True)
