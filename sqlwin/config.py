"""The settings: `SET 'key' = 'value'`, RESET, `--set`, and the page of the docs about them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runtime.errors import AnalysisError, CatalogError
from runtime.nearest import nearest
from sqlwin.config_values import (
    parse_boolean,
    parse_choice,
    parse_duration,
    parse_int,
    parse_list,
    parse_memory,
    parse_time_zone,
)

AUTO = "auto"
DEFAULT = "default"

Value = str | int | bool | tuple[str, ...] | None


class Type(StrEnum):
    """What values a setting takes."""

    STRING = "string"
    CHOICE = "choice"
    INT = "int"
    INT_OR_AUTO = "int or auto"
    BOOLEAN = "boolean"
    DURATION = "duration"
    MEMORY = "memory size"
    LIST = "list"
    TIME_ZONE = "time zone"


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
        name: its key.
        type: what values it takes.
        default: its value unless it is set, as text.
        doc: what it is for, one line.
        choices: the values of a CHOICE.
        spark_conf: the setting of Spark's that it stands for.
        has_effect: whether it changes anything here. Flink's others are taken, so that its
            scripts run.
    """

    name: str
    type: Type
    default: str
    doc: str
    choices: tuple[str, ...] = ()
    spark_conf: str | None = None
    has_effect: bool = True


def _flink(name: str, type_: Type, default: str, doc: str) -> Setting:
    return Setting(name, type_, default, doc, has_effect=False)


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "execution.checkpointing.dir",
            Type.STRING,
            "",
            "where streams keep what they need to resume, each in a directory of its own; "
            "without it they cannot",
        ),
        Setting(
            "execution.checkpointing.interval",
            Type.DURATION,
            "1 s",
            "the time from the start of a stream's micro-batch to that of the next",
        ),
        Setting(
            "execution.runtime-mode",
            Type.CHOICE,
            "automatic",
            "how queries run: `batch`; `streaming`; or `automatic`, which is streaming where a "
            "source has no end",
            choices=("automatic", "batch", "streaming"),
        ),
        Setting(
            "parallelism.default",
            Type.INT,
            DEFAULT,
            "how many tasks an exchange of rows spreads over",
            spark_conf="spark.sql.shuffle.partitions",
        ),
        Setting(
            "pipeline.name",
            Type.STRING,
            "",
            "a name for the jobs of the statements that follow",
        ),
        Setting(
            "sqlwin.emit.early-fire.rows",
            Type.INT,
            "0",
            "puts a window out early whenever so many rows came; 0: never",
        ),
        Setting(
            "sqlwin.emit.late-fire.rows",
            Type.INT,
            "0",
            "puts a window out again whenever so many late rows came; 0: never",
        ),
        Setting(
            "sqlwin.end-of-input",
            Type.CHOICE,
            "close-windows",
            "what the end of a stream's input does: closes all windows, or leaves them in the "
            "checkpoint for the next run",
            choices=("close-windows", "hold-windows"),
        ),
        Setting(
            "sqlwin.exchange.buckets",
            Type.INT_OR_AUTO,
            AUTO,
            "buckets of keys that a window aggregation is cut into; one is in memory at a time; "
            "`auto` goes by the tasks and by the size of the files",
        ),
        Setting(
            "sqlwin.exchange.partitions",
            Type.INT_OR_AUTO,
            AUTO,
            "tasks that a window aggregation's buckets are spread over; `auto` goes by the rows of "
            "the files, and takes at most spark.sql.shuffle.partitions",
        ),
        Setting(
            "sqlwin.local.buffer-size",
            Type.MEMORY,
            "64 mb",
            "what a task of a window aggregation holds of partial results before it sends them",
        ),
        Setting(
            "sqlwin.optimizer.disabled-rules",
            Type.LIST,
            "",
            "names of planner rules that are left out, with commas between them",
        ),
        Setting(
            "sqlwin.state.key-groups",
            Type.INT_OR_AUTO,
            AUTO,
            "groups of keys that a stream's state is cut into, for good, when it first starts",
        ),
        Setting(
            "sqlwin.strict-flink",
            Type.BOOLEAN,
            "false",
            "whether to refuse windows that Flink 2.3 would refuse, with what it takes instead",
        ),
        Setting(
            "sqlwin.watermark.max-jump",
            Type.DURATION,
            "0 ms",
            "how far one micro-batch may move a source's watermark; 0: any distance",
        ),
        Setting(
            "sqlwin.watermark.policy",
            Type.CHOICE,
            "min",
            "which of its sources' watermarks an operator goes by",
            choices=("min", "max"),
        ),
        Setting(
            "table.dml-sync",
            Type.BOOLEAN,
            "false",
            "whether INSERT waits for the end of a stream that has none; it does for all others",
        ),
        Setting(
            "table.exec.emit.allow-lateness",
            Type.DURATION,
            "0 ms",
            "for so long after its end a window is put out again with rows that come late",
        ),
        Setting(
            "table.exec.emit.early-fire.delay",
            Type.DURATION,
            "0 ms",
            "how often windows are put out early; 0: with every micro-batch that brought rows",
        ),
        Setting(
            "table.exec.emit.early-fire.enabled",
            Type.BOOLEAN,
            "false",
            "whether windows are put out before their end too",
        ),
        Setting(
            "table.exec.emit.late-fire.delay",
            Type.DURATION,
            "0 ms",
            "how often windows with late rows are put out again; 0: with every micro-batch",
        ),
        Setting(
            "table.exec.emit.late-fire.enabled",
            Type.BOOLEAN,
            "false",
            "whether `table.exec.emit.late-fire.delay` counts",
        ),
        Setting(
            "table.exec.source.idle-timeout",
            Type.DURATION,
            "0 ms",
            "a stream's source without rows for so long does not hold back the others; 0: it does",
        ),
        Setting(
            "table.local-time-zone",
            Type.TIME_ZONE,
            DEFAULT,
            "the zone of TIMESTAMP_LTZ columns and of windows over them; `default` is Spark's",
            spark_conf="spark.sql.session.timeZone",
        ),
        Setting(
            "table.optimizer.agg-phase-strategy",
            Type.CHOICE,
            "AUTO",
            "whether window aggregations are computed before the exchange too",
            choices=("AUTO", "ONE_PHASE", "TWO_PHASE"),
        ),
        _flink("jobmanager.memory.process.size", Type.MEMORY, DEFAULT, "memory of Flink's manager"),
        _flink(
            "pipeline.auto-watermark-interval",
            Type.DURATION,
            "200 ms",
            "how often Flink's sources tell the watermark",
        ),
        _flink(
            "sql-client.execution.result-mode",
            Type.STRING,
            "table",
            "how Flink's client shows rows",
        ),
        _flink(
            "table.exec.mini-batch.allow-latency",
            Type.DURATION,
            "0 ms",
            "how long Flink collects rows",
        ),
        _flink(
            "table.exec.mini-batch.enabled", Type.BOOLEAN, "false", "whether Flink collects rows"
        ),
        _flink("table.exec.mini-batch.size", Type.INT, "0", "how many rows Flink collects"),
        _flink("table.exec.state.ttl", Type.DURATION, "0 ms", "how long Flink keeps state"),
        _flink(
            "table.optimizer.distinct-agg.split.bucket-num",
            Type.INT,
            "1024",
            "buckets of Flink's split DISTINCT aggregates",
        ),
        _flink(
            "table.optimizer.distinct-agg.split.enabled",
            Type.BOOLEAN,
            "false",
            "whether Flink splits DISTINCT aggregates",
        ),
        _flink(
            "table.optimizer.join-reorder-enabled",
            Type.BOOLEAN,
            "false",
            "whether Flink reorders joins",
        ),
        _flink(
            "table.optimizer.multiple-input-enabled",
            Type.BOOLEAN,
            "true",
            "whether Flink merges operators",
        ),
        _flink(
            "table.optimizer.reuse-source-enabled",
            Type.BOOLEAN,
            "true",
            "whether Flink reads a source once",
        ),
        _flink(
            "table.optimizer.reuse-sub-plan-enabled",
            Type.BOOLEAN,
            "true",
            "whether Flink computes a part of a plan once",
        ),
        _flink(
            "taskmanager.memory.process.size",
            Type.MEMORY,
            DEFAULT,
            "memory of Flink's workers",
        ),
    )
}

# Flink has hundreds of these; they are about how Flink runs, so any value will do.
_FLINK_PREFIXES = (
    "akka.",
    "client.",
    "cluster.",
    "execution.attached",
    "execution.buffer-timeout",
    "execution.checkpointing.",
    "execution.savepoint.",
    "execution.shutdown-",
    "execution.state-recovery.",
    "high-availability",
    "jobmanager.",
    "metrics.",
    "parallelism.max",
    "pipeline.",
    "rest.",
    "restart-strategy",
    "sql-client.",
    "state.",
    "table.builtin-",
    "table.display.",
    "table.dynamic-table-options.",
    "table.exec.",
    "taskmanager.",
    "yarn.",
)

_SPARK = "spark."

# Below, tasks send crumbs; above, a column of the buffer may be more than Arrow holds in one piece.
_LEAST_BUFFER = 1 << 20
_MOST_BUFFER = 1 << 30


class Config:
    """The settings of a session, each at its default until it is set."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def set(self, key: str, value: str) -> tuple[str, ...]:
        """Give a setting a value; remarks about it, maybe none.

        Raises:
            SqlwinError: there is no such setting, or the value has no sense.
        """
        key = key.strip()
        setting = self._setting(key)
        if setting is None:
            self._texts[key] = value.strip()
            return () if key.startswith(_SPARK) else (_no_effect(key),)
        if value.strip() == DEFAULT and setting.default == DEFAULT:
            self.reset(key)
            return ()
        self._texts[key] = _checked(setting, value)
        return () if setting.has_effect else (_no_effect(key),)

    def reset(self, key: str) -> None:
        """Give a setting its default again.

        Raises:
            SqlwinError: there is no such setting.
        """
        self._setting(key.strip())
        self._texts.pop(key.strip(), None)

    def get(self, key: str) -> Any:
        """The value of a setting in its own type: durations in microseconds, memory in bytes.

        None stands for `auto`, for `default`, and for a setting of Spark's or Flink's not set.

        Raises:
            SqlwinError: there is no such setting.
        """
        setting = self._setting(key)
        if setting is None:
            return self._texts.get(key)
        return _value(setting, self._texts.get(key, setting.default))

    def text(self, key: str) -> str | None:
        """The value of a setting as text; None for one of Spark's or Flink's not set.

        Raises:
            SqlwinError: there is no such setting.
        """
        setting = self._setting(key)
        return self._texts.get(key, None if setting is None else setting.default)

    def is_set(self, key: str) -> bool:
        """Whether a setting was given a value."""
        return key in self._texts

    def items(self) -> list[tuple[str, str]]:
        """Settings by name with their values: those that have an effect, and all that were set."""
        texts = {s.name: s.default for s in SETTINGS.values() if s.has_effect}
        return sorted({**texts, **self._texts}.items())

    def spark_setting(self, key: str) -> tuple[str | None, str | None]:
        """The setting of Spark's that a key stands for, and its value; None for Spark's default.

        The name is None where a setting is no matter of Spark's.
        """
        if key.startswith(_SPARK):
            return key, self._texts.get(key)
        setting = SETTINGS.get(key)
        if setting is None or setting.spark_conf is None:
            return None, None
        return setting.spark_conf, self._texts.get(key)

    @staticmethod
    def _setting(key: str) -> Setting | None:
        """A setting; None for one that takes any value, of Spark's or of Flink's."""
        if key in SETTINGS:
            return SETTINGS[key]
        if key.startswith((_SPARK, *_FLINK_PREFIXES)):
            return None
        close = nearest(key, SETTINGS)
        raise CatalogError(
            f"there is no setting '{key}'",
            hint=f"did you mean '{close}'?" if close else "SET lists the settings",
        )


def _no_effect(key: str) -> str:
    return f"'{key}' is a setting of Flink's and has no effect here"


def _checked(setting: Setting, text: str) -> str:
    """The text of a value that was found right."""
    value = _value(setting, text)
    if setting.type in (Type.CHOICE, Type.TIME_ZONE):
        return str(value)
    return text.strip()


def _value(setting: Setting, text: str) -> Value:
    if text == setting.default == DEFAULT:
        return None
    match setting.type:
        case Type.CHOICE:
            return parse_choice(setting.name, text, setting.choices)
        case Type.INT:
            least = 1 if setting.name == "parallelism.default" else 0
            return parse_int(setting.name, text, least)
        case Type.INT_OR_AUTO:
            if text.strip().lower() == AUTO:
                return None
            return parse_int(setting.name, text, least=1)
        case Type.BOOLEAN:
            return parse_boolean(setting.name, text)
        case Type.DURATION:
            return parse_duration(setting.name, text)
        case Type.MEMORY:
            n_bytes = parse_memory(setting.name, text)
            if setting.has_effect and not _LEAST_BUFFER <= n_bytes <= _MOST_BUFFER:
                raise AnalysisError(
                    f"'{setting.name}' cannot be {text.strip()!r}", hint="take 1 mb to 1 gb"
                )
            return n_bytes
        case Type.LIST:
            return parse_list(text)
        case Type.TIME_ZONE:
            return parse_time_zone(setting.name, text)
        case Type.STRING:
            return text.strip()
