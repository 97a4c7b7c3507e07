"""`python -m tests.stress kill`, `interrupt` or `threads`."""

import argparse

from tests.stress import faults

COMMANDS = {
    "kill": (faults.main_kill, "processes killed while they save", 200, "processes"),
    "interrupt": (faults.main_interrupt, "Ctrl-C during fit", 1000, "times each"),
    "threads": (faults.main_threads, "networks that learn at once", 8, "threads"),
}

parser = argparse.ArgumentParser(prog="python -m tests.stress")
commands = parser.add_subparsers(required=True)
for name, (main, summary, count, unit) in COMMANDS.items():
    command = commands.add_parser(name, help=summary, description=summary)
    command.add_argument("count", nargs="?", type=int, default=count, help=f"{unit} (default {count})")
    command.set_defaults(main=main)
arguments = parser.parse_args()
arguments.main(arguments.count)
