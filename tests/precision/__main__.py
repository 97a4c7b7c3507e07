"""The command: `python -m tests.precision [operands]`."""

import sys

from tests.precision import EXCEPTIONS, OPERATIONS, ROUGH, errors

n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
row = "{:<24} {:>10}  {:<44} {:>10}  {}".format
print(row("operation", "value", "worst at", "derivative", "worst at"))
for name, operation in OPERATIONS.items():
    found = list(errors(operation, n))
    value, derivative = max(found, key=lambda e: e.value), max(found, key=lambda e: e.derivative)
    at = [", ".join(map(repr, worst.point)) for worst in (value, derivative)]
    print(row(name, f"{value.value:.2f}", at[0], f"{derivative.derivative:.3g}", at[1]), flush=True)
for what, table in (("Values beyond 2 of them:", ROUGH), ("Derivatives beyond 8 of them:", EXCEPTIONS)):
    print(f"\nErrors are in units in the last place. {what}")
    for name, (reason, _) in table.items():
        print(f"- {name}: {reason}")
