"""Options that several commands have."""

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
    """`key=value` cut at the first equals sign; the value may be empty or hold more of them.

    Raises:
        click.BadParameter: there is no equals sign, or nothing before it.
    """
    found = []
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            said = f"{DEFAULT.text(value)!r} is not of the form key=value"
            raise click.BadParameter(said, ctx, param)
        found.append((key.strip(), text.strip()))
    return found


_NAME = re.compile(r"[^\W\d]\w*")


def parameter_pairs(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[tuple[str, str]]:
    """`name=value` cut at the first equals sign; the value is left as it is.

    Raises:
        click.BadParameter: there is no equals sign, or what stands before it is no name.
    """
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not _NAME.fullmatch(name):
            said = f"{DEFAULT.text(value)!r} is not of the form name=value"
            raise click.BadParameter(said, ctx, param)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        found[name] = text
    return list(found.items())


parameter_option = click.option(
    "--param",
    "params",
    callback=parameter_pairs,
    multiple=True,
    metavar="NAME=VALUE",
    help="The value of :NAME in the SQL. A number, TRUE, FALSE, NULL, a string in quotes, "
    "DATE '...', TIMESTAMP '...' and INTERVAL ... are what they are in SQL, anything else is "
    "a text. Repeatable.",
)
no_progress_option = click.option("--no-progress", is_flag=True, help="Show no progress bar.")
no_engine_option = click.option(
    "--no-engine", is_flag=True, help="Start a Spark, and leave the background engine alone."
)


def _setting_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell completes: names of settings, with the equals sign behind them."""
    from sqlwin.config.settings import SETTINGS

    return [f"{name}=" for name in SETTINGS if name.startswith(incomplete)]


def with_spark_options(command: Command) -> Command:
    """What every command takes that starts Spark: on which Spark, with which settings."""
    return _decorated(
        command,
        click.option(
            "--set",
            "settings",
            callback=pairs,
            multiple=True,
            metavar="KEY=VALUE",
            shell_complete=_setting_names,
            help="A setting, as SET does it in SQL. Repeatable.",
        ),
        click.option("--master", metavar="URL", help="The Spark master, such as local[4]."),
        click.option(
            "--conf",
            callback=pairs,
            multiple=True,
            metavar="KEY=VALUE",
            help="A property of Spark's configuration. Repeatable.",
        ),
        click.option("--remote", metavar="URL", help="A Spark Connect server, sc://host:port."),
    )


def begin_java(spark: Mapping[str, Any]) -> None:
    """Let Java start while this command imports what it needs.

    Args:
        spark: the values of `with_spark_options`.

    Raises:
        click.UsageError: two ways to Spark are given.
    """
    from runtime.spark.session import begin_java

    begin_java(spark["master"], _configuration(spark), spark["remote"])


def connect(spark: Mapping[str, Any]) -> Session:
    """A session on the Spark that `with_spark_options` name, with their settings."""
    import sqlwin

    return sqlwin.connect(
        master=spark["master"],
        conf=_configuration(spark),
        remote=spark["remote"],
        settings=dict(spark["settings"]),
    )


def _configuration(spark: Mapping[str, Any]) -> dict[str, str]:
    if spark["master"] and spark["remote"]:
        raise click.UsageError("give --master or --remote, not both")
    # Spark's own bar would be drawn over ours; a server has none
    ours = {} if spark["remote"] else {"spark.ui.showConsoleProgress": "false"}
    return {**ours, **dict(spark["conf"])}


def sql_options(command: Command) -> Command:
    """What every command takes that runs SQL: where it comes from, and on which Spark."""
    return _decorated(
        command,
        click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True)),
        click.option(
            "-e", "expressions", multiple=True, metavar="SQL", help="Run this SQL. Repeatable."
        ),
        parameter_option,
        with_spark_options,
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False, allow_dash=True),
            metavar="PATH",
            callback=lambda ctx, param, path: None if path == "-" else path,
            help="Write to this file. It appears when it is complete, and not before.",
        ),
        no_progress_option,
        no_engine_option,
    )


class PageCommand(click.Command):
    """A command whose option `--ui` takes a port, or nothing: what follows may be a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give `--ui` its default where no number follows."""
        end = args.index("--") if "--" in args else len(args)
        for place in range(end):
            follows = args[place + 1] if place + 1 < end else ""
            if args[place] == "--ui" and not follows.isdigit():
                args[place] = f"--ui={ANY_PORT}"
        return super().parse_args(ctx, args)


# Stands for no port
ANY_PORT = -1


def _port(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The port that a text says.

    Raises:
        click.BadParameter: it says none.
    """
    if value is None or value == str(ANY_PORT):
        return None if value is None else ANY_PORT
    if not (value.isdecimal() and int(value) <= 65_535):
        raise click.BadParameter(f"{value!r} is no port: give one from 0 to 65535", ctx, param)
    return int(value)


# Of a PageCommand
page_option = click.option(
    "--ui",
    "ui_port",
    callback=_port,
    metavar="[PORT]",
    help="Serve a web page of what runs on 127.0.0.1, and metrics for Prometheus. Without "
    "PORT: 4050, or a free one if that is taken.",
)


def serve_page(session: Session, port: int | None) -> None:
    """Serve the page of a session, if it was asked for, and say where."""
    if port is None:
        return
    page = session.ui(None if port == ANY_PORT else port)
    click.echo(f"watch it at {page.url}", err=True)


def _decorated(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    """The command with these options, listed in this order by --help."""
    for decorate in reversed(decorators):
        command = decorate(command)
    return command
