"""Declaration of the settings: types, defaults and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

AUTO = "auto"


DEFAULT = "default"


class Type(StrEnum):
    """Type of a setting's values."""

    STRING = "string"
    CHOICE = "choice"
    INT = "int"
    INT_OR_AUTO = "int or auto"
    BOOLEAN = "boolean"
    DURATION = "duration"
    MEMORY = "memory size"
    LIST = "list"
    TIME_ZONE = "time zone"
    PATTERN = "regular expression"


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
        name: Key of the setting.
        type: Type of its values.
        default: Default value as text.
        doc: Description in one line.
        choices: Values of a CHOICE.
        spark_conf: Spark setting that it maps to.
        has_effect: Whether it changes anything. Other Flink settings are accepted so that Flink's
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
            "source is unbounded",
            choices=("automatic", "batch", "streaming"),
        ),
        Setting(
            "parallelism.default",
            Type.INT,
            DEFAULT,
            "the parallelism of an exchange of rows",
            spark_conf="spark.sql.shuffle.partitions",
        ),
        Setting(
            "pipeline.name",
            Type.STRING,
            "",
            "a name for the jobs of the statements that follow",
        ),
        Setting(
            "sqlwin.analyze.duration",
            Type.DURATION,
            "30 s",
            "for how long EXPLAIN ANALYZE runs a stream of unbounded input; 0: until Ctrl-C",
        ),
        Setting(
            "sqlwin.double-quotes",
            Type.CHOICE,
            "checked",
            "the meaning of text in double quotes: `string`, `identifier` (a name), or `checked`: "
            "a string, and an error where a column in scope has that name",
            choices=("checked", "identifier", "string"),
        ),
        Setting(
            "sqlwin.emit.early-fire.rows",
            Type.INT,
            "0",
            "emits a window early whenever so many rows came; 0: never",
        ),
        Setting(
            "sqlwin.emit.late-fire.rows",
            Type.INT,
            "0",
            "emits a window again whenever so many late rows came; 0: never",
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
            "parallelism of a window aggregation over its buckets; `auto` goes by the rows of "
            "the files, and takes at most spark.sql.shuffle.partitions",
        ),
        Setting(
            "sqlwin.local.buffer-size",
            Type.MEMORY,
            "64 mb",
            "what a task of a window aggregation holds of partial results before it sends them",
        ),
        Setting(
            "sqlwin.materialized.dir",
            Type.STRING,
            "",
            "a directory, here or in a store: materialized tables in it are opened by themselves, "
            "and those that have no 'path' are made there",
        ),
        Setting(
            "sqlwin.materialized.in-process-bytes",
            Type.MEMORY,
            "64 mb",
            "where so few bytes of slices are left to read, and little beside them, windows are "
            "put together in this process, without a job of Spark's; 0: never",
        ),
        Setting(
            "sqlwin.materialized.rewrite",
            Type.BOOLEAN,
            "true",
            "whether queries over a table are answered from slices of materialized tables over it",
        ),
        Setting(
            "sqlwin.materialized.stale-read",
            Type.CHOICE,
            "refuse",
            "what becomes of rows that are not in a materialized table yet: `refuse` reads them "
            "beside its slices; `allow` answers without them",
            choices=("refuse", "allow"),
        ),
        Setting(
            "sqlwin.optimizer.disabled-rules",
            Type.LIST,
            "",
            "names of planner rules that are left out, with commas between them",
        ),
        Setting(
            "sqlwin.python-variables",
            Type.BOOLEAN,
            "true",
            "whether `FROM df` reads the variable `df` of a notebook or of Python's prompt where "
            "there is no table of that name",
        ),
        Setting(
            "sqlwin.redaction.regex",
            Type.PATTERN,
            "",
            "names of options and settings whose values are shown as ******, beside those such as "
            "password, secret, token and key",
        ),
        Setting(
            "sqlwin.shared-local-paths",
            Type.BOOLEAN,
            "false",
            "whether paths without a file system of their own, such as NFS mounts, are the same "
            "files on all hosts of the cluster",
            spark_conf="spark.sqlwin.sharedLocalPaths",
        ),
        Setting(
            "sqlwin.state.bucket-bytes",
            Type.MEMORY,
            "64 mb",
            "a stream puts about so many bytes of rows of a key group together at a time: one with "
            "more is cut into sub-buckets, which are processed one after the other",
        ),
        Setting(
            "sqlwin.state.key-groups",
            Type.INT_OR_AUTO,
            AUTO,
            "groups of keys that a stream's state is cut into when it first starts",
        ),
        Setting(
            "sqlwin.strict-flink",
            Type.BOOLEAN,
            "false",
            "whether to refuse what Flink 2.3 would refuse, and to give functions and operators "
            "the meaning that they have there",
        ),
        Setting(
            "sqlwin.watermark.max-jump",
            Type.DURATION,
            "0 ms",
            "how far one micro-batch may move a source's watermark; 0: any distance",
        ),
        Setting(
            "sqlwin.watermark.per-split",
            Type.CHOICE,
            "auto",
            "whether each partition of a Kafka table has a watermark, and the table their minimum; "
            "auto: where it is known which partition a row is of",
            choices=("auto", "true", "false"),
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
            "for so long after its end a window is emitted again with late rows",
        ),
        Setting(
            "table.exec.emit.early-fire.delay",
            Type.DURATION,
            "0 ms",
            "how often windows are emitted early; 0: with every micro-batch that brought rows",
        ),
        Setting(
            "table.exec.emit.early-fire.enabled",
            Type.BOOLEAN,
            "false",
            "whether windows are emitted before their end too",
        ),
        Setting(
            "table.exec.emit.late-fire.delay",
            Type.DURATION,
            "0 ms",
            "how often windows with late rows are emitted again; 0: with every micro-batch",
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
            "how often Flink's sources emit the watermark",
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


# Flink has hundreds of these about its own execution. Any value is accepted.
FLINK_PREFIXES = (
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
