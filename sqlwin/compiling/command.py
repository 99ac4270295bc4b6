"""`sqlwin compile`: queries as SQL of another engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from sqlwin.console.options import pairs, parameter_option
from sqlwin.console.scripts import read_scripts


@click.command("compile", short_help="Print queries as SQL of another engine.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True))
@click.option(
    "-e", "expressions", multiple=True, metavar="SQL", help="Compile this SQL, after the files."
)
@click.option(
    "--to",
    "dialect",
    required=True,
    type=click.Choice(["clickhouse", "datafusion", "duckdb", "postgres", "spark"]),
    help="Engine that runs the text.",
)
@click.option(
    "--untested",
    metavar="DIALECT",
    help="Write the engine's text in another dialect of sqlglot, such as databricks. No test runs "
    "it: compare its rows with the engine's.",
)
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Script with CREATE TABLE and CREATE VIEW statements, run first. Repeatable.",
)
@parameter_option
@click.option(
    "--set",
    "settings",
    callback=pairs,
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting, like SET in SQL. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Write to this file. The file appears only when it is complete.",
)
def compile_command(
    files: Sequence[str],
    expressions: Sequence[str],
    dialect: str,
    untested: str | None,
    schemas: Sequence[str],
    params: Sequence[tuple[str, str]],
    settings: Sequence[tuple[str, str]],
    output: str | None,
) -> None:
    """Print each query of FILE or -e as one SELECT of another engine, without Spark and Java.

    The text aggregates rows into slices and merges slices into windows, in CTEs, so each row is
    aggregated once, however much the windows overlap. It reads tables by their names in the script.
    Columns come from CREATE TABLE, or from the files of a table without declared columns.

    A query whose rows might differ on the engine is refused, with the reason and the place. The
    text for Spark needs Spark 4 and its ANSI mode, which is the default.

    \b
    Examples, from the project's root:
      sqlwin compile queries/windows/hop.sql --to duckdb
      sqlwin compile queries/windows/session.sql --to spark --output session_spark.sql
    """  # noqa: D301 (click's mark is the character \b itself)
    from sqlwin.compiling.scripts import compile_scripts
    from sqlwin.display.output import AtomicFile

    scripts = read_scripts(files, expressions, params)
    definitions = read_scripts(schemas, ()) if schemas else []
    with ExitStack() as stack:
        file = stack.enter_context(AtomicFile(Path(output))) if output is not None else None
        n_queries = 0
        for text in compile_scripts(scripts, definitions, dialect, dict(settings), untested):
            separated = ";\n\n" * (n_queries > 0) + text
            n_queries += 1
            if file is None:
                click.echo(separated, nl=False)
            else:
                file.write(separated)
        if not n_queries:
            click.echo("no query to compile", err=True)
        elif file is None:
            click.echo()
        else:
            file.write("\n")
            file.commit()
