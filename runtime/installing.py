"""The command that installs sqlwin, as messages and pages show it."""

# What pip installs: the directory of a clone, or `sqlwin` once a package index has it. After a
# change, `make reference` writes the pages again.
SOURCE = "."

# Where to run the command
PLACE = " in a clone of sqlwin" if SOURCE == "." else ""


def install_command(*extras: str) -> str:
    """Return the command that installs sqlwin with extras."""
    return f"pip install '{SOURCE}[{','.join(extras)}]'" if extras else f"pip install {SOURCE}"


def install_hint(extra: str) -> str:
    """Return the hint of an error about a missing package of an extra."""
    return install_command(extra) + PLACE
