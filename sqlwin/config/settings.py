"""Declaration of the settings: types, defaults and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runtime.spec.aggregates import DEFAULT_MAX_VALUES
from runtime.spec.filling import DEFAULT_MAX_WINDOWS

AUTO = "auto"
DEFAULT = "default"


class Type(StrEnum):
    """Value type of a setting."""

    STRING = "string"
    CHOICE = "choice"
    INT = "int"
    INT_OR_AUTO = "int or auto"
    BOOLEAN = "boolean"
    DURATION = "duration"
    MEMORY = "memory size"
    RULES = "list of rules"
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
        has_effect: Whether the setting has an effect. Others are accepted so that Flink's scripts
            run.
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
            "directory of the checkpoints, with a subdirectory for each stream; without it, "
            "streams cannot resume",
        ),
        Setting(
            "execution.checkpointing.interval",
            Type.DURATION,
            "1 s",
            "time between the starts of two micro-batches of a stream",
        ),
        Setting(
            "execution.runtime-mode",
            Type.CHOICE,
            "automatic",
            "execution mode of queries: `batch`, `streaming`, or `automatic`, which streams if "
            "a source is unbounded",
            choices=("automatic", "batch", "streaming"),
        ),
        Setting(
            "parallelism.default",
            Type.INT,
            DEFAULT,
            "parallelism after an exchange of rows",
            spark_conf="spark.sql.shuffle.partitions",
        ),
        Setting(
            "pipeline.name",
            Type.STRING,
            "",
            "name of the Spark jobs and streams of the following statements",
        ),
        Setting(
            "sqlwin.analyze.duration",
            Type.DURATION,
            "30 s",
            "how long EXPLAIN ANALYZE runs a stream with unbounded input; 0: until Ctrl-C",
        ),
        Setting(
            "sqlwin.executor",
            Type.CHOICE,
            AUTO,
            "what computes batch queries: `portable` runs one text of Spark SQL, without Python "
            "workers and Spark's driver, or fails with the reason; `spark` runs Spark with Python "
            "workers; `auto` chooses this process, `spark`, or over Spark Connect `portable` if "
            "the query has a portable form",
            choices=(AUTO, "portable", "spark"),
        ),
        Setting(
            "sqlwin.double-quotes",
            Type.CHOICE,
            "checked",
            "meaning of text in double quotes: `string`, `identifier`, or `checked`: a string, "
            "but an error if a column in scope has that name",
            choices=("checked", "identifier", "string"),
        ),
        Setting(
            "sqlwin.emit.early-fire.rows",
            Type.INT,
            "0",
            "emit windows early after every N rows in a key group; 0: never",
        ),
        Setting(
            "sqlwin.emit.late-fire.rows",
            Type.INT,
            "0",
            "emit windows again after every N late rows in a key group; 0: never",
        ),
        Setting(
            "sqlwin.end-of-input",
            Type.CHOICE,
            "close-windows",
            "open windows at the end of a stream's input: `close-windows` emits them, "
            "`hold-windows` keeps them in the checkpoint for the next run",
            choices=("close-windows", "hold-windows"),
        ),
        Setting(
            "sqlwin.exchange.buckets",
            Type.INT_OR_AUTO,
            AUTO,
            "number of buckets for the keys of a window aggregation; a task holds one bucket in "
            "memory at a time; `auto` depends on the number of tasks and the size of the files",
        ),
        Setting(
            "sqlwin.exchange.partitions",
            Type.INT_OR_AUTO,
            AUTO,
            "parallelism of the global stage of a window aggregation; `auto` depends on the "
            "number of rows in the files, up to spark.sql.shuffle.partitions",
        ),
        Setting(
            "sqlwin.fill.keep",
            Type.DURATION,
            "1 d",
            "on a stream, how long after its last row FILL and GAP_FILL add windows of a key; the "
            "key then leaves the state",
        ),
        Setting(
            "sqlwin.fill.max-windows",
            Type.INT,
            str(DEFAULT_MAX_WINDOWS),
            "maximum number of windows that FILL and GAP_FILL make for a key",
        ),
        Setting(
            "sqlwin.local.buffer-size",
            Type.MEMORY,
            "64 mb",
            "memory in which a task of the local stage collects partials before it sends them",
        ),
        Setting(
            "sqlwin.materialized.dir",
            Type.STRING,
            "",
            "directory of materialized tables, local or in an object store: tables in it are "
            "opened automatically, and new ones without 'path' are created in it",
        ),
        Setting(
            "sqlwin.in-process.max-bytes",
            Type.MEMORY,
            "1 gb",
            "maximum bytes of rows in Parquet, CSV and JSON files that a query reads in this "
            "process, without Spark; 0: never. The default is lower on a machine with less than "
            "16 GB, and off in a session with its own Spark (`--master`, `master=`, `spark=`)",
        ),
        Setting(
            "sqlwin.materialized.in-process-bytes",
            Type.MEMORY,
            "64 mb",
            "maximum bytes of slices that a query merges in this process, without a Spark job; "
            "0: never",
        ),
        Setting(
            "sqlwin.materialized.rewrite",
            Type.BOOLEAN,
            "true",
            "whether queries over a table use the slices of materialized tables over it",
        ),
        Setting(
            "sqlwin.materialized.stale-read",
            Type.CHOICE,
            "refuse",
            "rows that a materialized table does not contain yet: `refuse` also reads them from "
            "the base table, `allow` omits them",
            choices=("refuse", "allow"),
        ),
        Setting(
            "sqlwin.optimizer.disabled-rules",
            Type.RULES,
            "",
            "names of planner rules to skip, separated by commas",
        ),
        Setting(
            "sqlwin.python-variables",
            Type.BOOLEAN,
            "true",
            "whether `FROM df` reads the variable `df` of a notebook or of Python's prompt if "
            "no table has that name",
        ),
        Setting(
            "sqlwin.redaction.regex",
            Type.PATTERN,
            "",
            "names of additional options and settings whose values are shown as ******; names "
            "such as password, secret, token and key are always covered",
        ),
        Setting(
            "sqlwin.result.max-in-flight",
            Type.MEMORY,
            "64 mb",
            "memory for the rows of a query on their way from Spark's tasks to this process; rows "
            "that do not fit wait on disk",
        ),
        Setting(
            "sqlwin.retry-timeout",
            Type.DURATION,
            "5 min",
            "how long a running stream retries while a Kafka broker or a PostgreSQL database is "
            "unavailable, before it fails; at least 5 s for Kafka",
        ),
        Setting(
            "sqlwin.shared-local-paths",
            Type.BOOLEAN,
            "false",
            "whether paths without a file system scheme, such as NFS mounts, are the same files "
            "on all hosts of the cluster",
            spark_conf="spark.sqlwin.sharedLocalPaths",
        ),
        Setting(
            "sqlwin.state.bucket-bytes",
            Type.MEMORY,
            "64 mb",
            "approximate maximum bytes of a key group's rows that a stream merges at once; "
            "larger key groups are split into sub-buckets, which are processed one after "
            "another",
        ),
        Setting(
            "sqlwin.state.key-groups",
            Type.INT_OR_AUTO,
            AUTO,
            "number of key groups in the state of a new stream",
        ),
        Setting(
            "sqlwin.state.max-values",
            Type.INT,
            str(DEFAULT_MAX_VALUES),
            "maximum number of values that a stream keeps for a key and window of MEDIAN, MODE and "
            "other functions of all values; 0: no limit",
        ),
        Setting(
            "sqlwin.strict-flink",
            Type.BOOLEAN,
            "false",
            "whether to reject what Flink 2.3 rejects, and to give functions and operators "
            "Flink's meaning",
        ),
        Setting(
            "sqlwin.watermark.idle-advance",
            Type.DURATION,
            "0 ms",
            "time without rows of all sources after which the watermark of a stream advances with "
            "the clock; 0: never. A table option of the same name replaces it",
        ),
        Setting(
            "sqlwin.watermark.max-jump",
            Type.DURATION,
            "0 ms",
            "maximum distance that one micro-batch may advance a source's watermark; 0: no limit",
        ),
        Setting(
            "sqlwin.watermark.per-split",
            Type.CHOICE,
            "auto",
            "whether each partition of a Kafka table has its own watermark, and the table their "
            "minimum; `auto`: if the partition of each row is known",
            choices=("auto", "true", "false"),
        ),
        Setting(
            "sqlwin.watermark.policy",
            Type.CHOICE,
            "min",
            "whether an operator uses the lowest or the highest watermark of its sources",
            choices=("min", "max"),
        ),
        Setting(
            "table.dml-sync",
            Type.BOOLEAN,
            "false",
            "whether INSERT waits for streams with unbounded input; it always waits for those "
            "with bounded input",
        ),
        Setting(
            "table.exec.emit.allow-lateness",
            Type.DURATION,
            "0 ms",
            "allowed lateness: time after its end during which a window is emitted again with "
            "late rows",
        ),
        Setting(
            "table.exec.emit.early-fire.delay",
            Type.DURATION,
            "0 ms",
            "interval at which windows are emitted early; 0: after every micro-batch with rows",
        ),
        Setting(
            "table.exec.emit.early-fire.enabled",
            Type.BOOLEAN,
            "false",
            "whether windows are also emitted before their end",
        ),
        Setting(
            "table.exec.emit.late-fire.delay",
            Type.DURATION,
            "0 ms",
            "interval at which windows with late rows are emitted again; 0: after every "
            "micro-batch",
        ),
        Setting(
            "table.exec.emit.late-fire.enabled",
            Type.BOOLEAN,
            "false",
            "whether `table.exec.emit.late-fire.delay` applies",
        ),
        Setting(
            "table.exec.source.idle-timeout",
            Type.DURATION,
            "0 ms",
            "time without rows after which a stream's source is idle and the watermark no "
            "longer waits for it; 0: never",
        ),
        Setting(
            "table.exec.state.ttl",
            Type.DURATION,
            "0 ms",
            "time after which the state of a key without a window is dropped, for groups, SELECT "
            "DISTINCT and ranks: processing time since its last change; for the first row by the "
            "time of the watermark, event time since this row; 0: never",
        ),
        Setting(
            "table.local-time-zone",
            Type.TIME_ZONE,
            DEFAULT,
            "time zone of TIMESTAMP_LTZ columns and of windows over them; `default`: Spark's "
            "session time zone",
            spark_conf="spark.sql.session.timeZone",
        ),
        Setting(
            "table.optimizer.agg-phase-strategy",
            Type.CHOICE,
            "AUTO",
            "whether window aggregations also aggregate before the exchange",
            choices=("AUTO", "ONE_PHASE", "TWO_PHASE"),
        ),
        _flink(
            "jobmanager.memory.process.size", Type.MEMORY, DEFAULT, "memory of Flink's job manager"
        ),
        _flink(
            "pipeline.auto-watermark-interval",
            Type.DURATION,
            "200 ms",
            "interval at which Flink's sources emit watermarks",
        ),
        _flink(
            "sql-client.execution.result-mode",
            Type.STRING,
            "table",
            "how Flink's SQL client shows rows",
        ),
        _flink(
            "table.exec.mini-batch.allow-latency",
            Type.DURATION,
            "0 ms",
            "maximum time that Flink collects rows in a mini-batch",
        ),
        _flink(
            "table.exec.mini-batch.enabled",
            Type.BOOLEAN,
            "false",
            "whether Flink collects rows in mini-batches",
        ),
        _flink(
            "table.exec.mini-batch.size", Type.INT, "0", "maximum rows in a mini-batch of Flink"
        ),
        _flink(
            "table.optimizer.distinct-agg.split.bucket-num",
            Type.INT,
            "1024",
            "number of buckets into which Flink splits DISTINCT aggregates",
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
            "whether Flink merges operators with several inputs",
        ),
        _flink(
            "table.optimizer.reuse-source-enabled",
            Type.BOOLEAN,
            "true",
            "whether Flink reads a shared source only once",
        ),
        _flink(
            "table.optimizer.reuse-sub-plan-enabled",
            Type.BOOLEAN,
            "true",
            "whether Flink computes a shared part of a plan only once",
        ),
        _flink(
            "taskmanager.memory.process.size",
            Type.MEMORY,
            DEFAULT,
            "memory of Flink's task managers",
        ),
    )
}


# Prefixes of Flink's settings for its own execution. They are accepted with any value.
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
