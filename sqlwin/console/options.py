"""Options shared by several commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runtime.redaction import DEFAULT

if TYPE_CHECKING:
    from sqlwin.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])


def pairs(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[tuple[str, str]]:
    """Split `key=value` at the first equals sign. The value may be empty or contain more of them.

    Raises:
        click.BadParameter: The equals sign or the key is missing.
    """
    pairs_ = []
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            problem = f"{DEFAULT.text(value)!r} must have the form key=value"
            raise click.BadParameter(problem, ctx, param)
        pairs_.append((key.strip(), text.strip()))
    return pairs_


_NAME = re.compile(r"[^\W\d]\w*")


def parameter_pairs(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[tuple[str, str]]:
    """Split `name=value` at the first equals sign, leaving the value unchanged.

    Raises:
        click.BadParameter: The equals sign is missing, or the name is invalid.
    """
    by_name: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not _NAME.fullmatch(name):
            problem = f"{DEFAULT.text(value)!r} must have the form name=value"
            raise click.BadParameter(problem, ctx, param)
        if name in by_name:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        by_name[name] = text
    return list(by_name.items())


parameter_option = click.option(
    "--param",
    "params",
    callback=parameter_pairs,
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of :NAME in the SQL. A number, TRUE, FALSE, NULL, a quoted string, DATE '...', "
    "TIMESTAMP '...' and INTERVAL ... have their SQL meaning; anything else is a string. "
    "Repeatable.",
)
no_progress_option = click.option("--no-progress", is_flag=True, help="Show no progress bar.")
no_engine_option = click.option(
    "--no-engine", is_flag=True, help="Start a new Spark instead of using the background engine."
)


def _setting_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return shell completions: names of settings, followed by an equals sign."""
    from sqlwin.config.settings import SETTINGS

    return [f"{name}=" for name in SETTINGS if name.startswith(incomplete)]


def with_spark_options(command: Command) -> Command:
    """Add the options of all commands that start Spark: master and settings."""
    return _decorate(
        command,
        click.option(
            "--set",
            "settings",
            callback=pairs,
            multiple=True,
            metavar="KEY=VALUE",
            shell_complete=_setting_names,
            help="Change a setting, like SET in SQL. Repeatable.",
        ),
        click.option("--master", metavar="URL", help="Spark master, such as local[4]."),
        click.option(
            "--conf",
            callback=pairs,
            multiple=True,
            metavar="KEY=VALUE",
            help="Spark configuration property. Repeatable.",
        ),
        click.option("--remote", metavar="URL", help="Spark Connect server, sc://host:port."),
    )


def begin_java(spark: Mapping[str, Any]) -> None:
    """Start Java while this command imports what it needs.

    Args:
        spark: Values of `with_spark_options`.

    Raises:
        click.UsageError: The options name two ways to connect to Spark.
    """
    from runtime.spark.session import begin_java

    begin_java(spark["master"], _configuration(spark), spark["remote"])


def connect(spark: Mapping[str, Any], *, is_shared: bool = False) -> Session:
    """Return a session with the Spark and the settings of `with_spark_options`.

    Args:
        spark: Values of the options.
        is_shared: Whether several users share the session.
    """
    import sqlwin
    from runtime.spark.session import IS_SHARED

    shared = {IS_SHARED: "true"} if is_shared and not spark["remote"] else {}
    return sqlwin.connect(
        master=spark["master"],
        conf={**shared, **_configuration(spark)},
        remote=spark["remote"],
        settings=dict(spark["settings"]),
    )


def _configuration(spark: Mapping[str, Any]) -> dict[str, str]:
    if spark["master"] and spark["remote"]:
        raise click.UsageError("use either --master or --remote")
    # Spark's own progress bar would overwrite ours; a server has none
    ours = {} if spark["remote"] else {"spark.ui.showConsoleProgress": "false"}
    return {**ours, **dict(spark["conf"])}


def sql_options(command: Command) -> Command:
    """Add the options of all commands that run SQL: sources, Spark and settings."""
    return _decorate(
        command,
        click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True)),
        click.option(
            "-e",
            "expressions",
            multiple=True,
            metavar="SQL",
            help="Run this SQL, after the files. Repeatable.",
        ),
        parameter_option,
        with_spark_options,
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False, allow_dash=True),
            metavar="PATH",
            callback=lambda ctx, param, path: None if path == "-" else path,
            help="Write to this file. The file appears only when it is complete.",
        ),
        no_progress_option,
        no_engine_option,
    )


class PageCommand(click.Command):
    """Command whose option `--ui` takes an optional port, which a file name may follow."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default of `--ui` unless a number follows."""
        end = args.index("--") if "--" in args else len(args)
        for place in range(end):
            follows = args[place + 1] if place + 1 < end else ""
            if args[place] == "--ui" and not follows.isdigit():
                args[place] = f"--ui={ANY_PORT}"
        return super().parse_args(ctx, args)


# Stands for any port
ANY_PORT = -1


def _port(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Parse a port.

    Raises:
        click.BadParameter: The text is not a port.
    """
    if value is None or value == str(ANY_PORT):
        return None if value is None else ANY_PORT
    if not (value.isdecimal() and int(value) <= 65_535):
        raise click.BadParameter(f"{value!r} is not a port from 0 to 65535", ctx, param)
    return int(value)


# For a PageCommand
page_option = click.option(
    "--ui",
    "ui_port",
    callback=_port,
    metavar="[PORT]",
    help="Serve a web page about running statements, and Prometheus metrics, on 127.0.0.1. "
    "Default port: 4050, or a free one if it is in use. Needs the extra `ui`, for metrics also "
    "`metrics`.",
)


def serve_page(session: Session, port: int | None) -> None:
    """Serve the session's page if requested, and print its address."""
    if port is None:
        return
    page = session.ui(None if port == ANY_PORT else port)
    click.echo(f"monitoring page: {page.url}", err=True)


def _decorate(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    """Add options to a command, in the order of --help."""
    for decorate in reversed(decorators):
        command = decorate(command)
    return command
