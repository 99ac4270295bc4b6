"""`sqlwin functions`: help on window functions and aggregates."""

from __future__ import annotations

import click


@click.command(short_help="Explain functions, with pictures.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def functions(names: tuple[str, ...]) -> None:
    """Explain functions: signature, meaning, a picture of the windows, an example.

    Without NAME, all are listed.

    \b
    Examples:
      sqlwin functions
      sqlwin functions CUMULATE
      sqlwin functions hop first_value
    """  # noqa: D301
    from sqlwin.help.functions import describe_function, list_functions

    texts = [describe_function(name) for name in names] or [list_functions()]
    click.echo("\n\n".join(texts))
