"""Plant every fault and count those that the simulator finds."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from tests.mutants.faults import FAULTS

# Faults that must be found: all
LEAST = len(FAULTS)


def find(number: int | None) -> tuple[bool, str]:
    """Return whether a fault is found, and the problem. None: no fault."""
    arguments = [] if number is None else [str(number)]
    command = [sys.executable, "-m", "tests.mutants.planting", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = result.stdout.strip().splitlines() or result.stderr.strip().splitlines()
    assert result.returncode in (0, 1) and result.stdout, result.stderr
    return result.returncode == 1, lines[-1]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="faults to plant; default: all")
    numbers = parser.parse_args().numbers or range(len(FAULTS))
    is_wrong, problem = find(None)
    if is_wrong:
        sys.exit(f"without a fault: {problem}")
    begun = time.monotonic()
    n_found = 0
    for number in numbers:
        is_found, problem = find(number)
        n_found += is_found
        print(f"{number:2} {'found ' if is_found else 'MISSED'} {FAULTS[number].name}: {problem}")
    seconds = time.monotonic() - begun
    print(f"{n_found} of {len(numbers)} faults found in {seconds:.0f} s")
    if len(numbers) == len(FAULTS) and n_found < LEAST:
        sys.exit(1)


if __name__ == "__main__":
    main()
