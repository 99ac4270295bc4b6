"""Syntax, meaning and an example of statements and clauses, for the reference and the prompt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StatementHelp:
    """A kind of statement, or a clause of queries and definitions.

    Attributes:
        title: Name of the statement or clause. Several names are separated by commas.
        syntax: Syntax: `[ ]` is optional, `|` separates choices, `...` repeats.
        doc: Description.
        example: Valid example.
    """

    title: str
    syntax: str
    doc: str
    example: str


STATEMENTS = (
    StatementHelp(
        "SELECT",
        "[WITH name AS (query), ...]\n"
        "SELECT expression [AS name], ...\n"
        "FROM table | TABLE(window function) | (query) [AS name] [JOIN ... ON ...]\n"
        "[WHERE condition] [GROUP BY expression, ...] [HAVING condition]\n"
        "[FILL (name = value | LOCF | LINEAR, ...) [FROM time] [TO time] [KEYS (query)]]\n"
        "[ORDER BY expression, ...] [LIMIT n]",
        "Runs a query in Spark SQL, with window functions in FROM. Types, functions, joins, casts\n"
        "and NULLs follow Spark in ANSI mode. FILL adds windows without rows.",
        "SELECT window_start, window_end, item, SUM(price) AS total\n"
        "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))\n"
        "GROUP BY window_start, window_end, item;",
    ),
    StatementHelp(
        "EXPLAIN",
        "EXPLAIN [PLAN FOR | detail, ...] statement",
        "Shows the plan of a query or INSERT: the trees, the slices, the rules that applied, and\n"
        "why others did not. EXPLAIN ROW names the rows from which a single row is computed. See\n"
        "[explain.md](explain.md). The command `compile` prints a query as SQL of another engine.",
        "EXPLAIN SELECT COUNT(*) FROM bids;",
    ),
    StatementHelp(
        "INSERT",
        "INSERT INTO | OVERWRITE table [PARTITION (column [= value], ...)] [(column, ...)] query",
        "Writes the rows of a query to a table. OVERWRITE replaces the existing rows.",
        "INSERT INTO totals SELECT item, SUM(price) FROM bids GROUP BY item;",
    ),
    StatementHelp(
        "EXECUTE STATEMENT SET",
        "EXECUTE STATEMENT SET BEGIN insert; [insert; ...] END\n"
        "BEGIN STATEMENT SET; insert; [insert; ...] END",
        "Runs several INSERTs as one statement.",
        "EXECUTE STATEMENT SET BEGIN\n"
        "  INSERT INTO totals SELECT item, SUM(price) FROM bids GROUP BY item;\n"
        "  INSERT INTO counts SELECT item, COUNT(*) FROM bids GROUP BY item;\n"
        "END;",
    ),
    StatementHelp(
        "CREATE TABLE",
        "CREATE [TEMPORARY] TABLE [IF NOT EXISTS] name [(\n"
        "  column type [NOT NULL] [METADATA [FROM 'key']] [COMMENT 'text'],\n"
        "  column AS expression,\n"
        "  [WATERMARK FOR column AS expression], [PRIMARY KEY (column, ...) NOT ENFORCED] )]\n"
        "[COMMENT 'text'] [PARTITIONED BY (column, ...)]\n"
        "WITH ('connector' = '...', 'option' = 'value', ...)\n"
        "[LIKE table [(INCLUDING | EXCLUDING | OVERWRITING part ...)] | AS query]",
        "Creates a session table over a source or sink, such as files: see\n"
        "[Connectors](reference-connectors.md). The columns are optional if the data has a\n"
        "schema. With AS, the rows of the query are written to the table. With LIKE and the name\n"
        "of a session table, WITH is optional.",
        "CREATE TABLE bids (\n"
        "  ts TIMESTAMP(3), item STRING, price DOUBLE, tax AS price * 0.19,\n"
        "  WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS\n"
        ") WITH ('connector' = 'filesystem', 'path' = 'bids.csv', 'format' = 'csv');",
    ),
    StatementHelp(
        "CREATE VIEW",
        "CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(column, ...)]\n"
        "[COMMENT 'text'] AS query",
        "Gives a query a name.",
        "CREATE VIEW dear AS SELECT * FROM bids WHERE price > 100;",
    ),
    StatementHelp(
        "CREATE MATERIALIZED TABLE",
        "CREATE MATERIALIZED TABLE [IF NOT EXISTS] name [COMMENT 'text']\n"
        "[PARTITIONED BY (key, ...)] [WITH ('path' = 'directory', ...)]\n"
        "[FRESHNESS = INTERVAL 'n' unit] [REFRESH_MODE = FULL | CONTINUOUS] [AS query]",
        "Stores a window aggregation as slices, which answer queries over the same table: see\n"
        "[Materialized tables](materialized-tables.md). Without AS, an existing one is opened.\n"
        "FULL tables follow the files of the source table. CONTINUOUS tables receive rows from\n"
        "INSERTs, in batch and streaming mode. 'slices.tiers' = '1 min for 7 d, 1 h' merges old\n"
        "slices, 'slices.retention' = '1 y' drops them.",
        "CREATE MATERIALIZED TABLE sold WITH ('path' = 'sold') AS\n"
        "SELECT item, window_start, window_end, SUM(price) AS total\n"
        "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))\n"
        "GROUP BY item, window_start, window_end;",
    ),
    StatementHelp(
        "ALTER MATERIALIZED TABLE",
        "ALTER MATERIALIZED TABLE name REFRESH | SUSPEND | RESUME",
        "REFRESH reads new files, and recomputes the slices of changed and removed files.\n"
        "`sqlwin refresh ...` skips suspended tables.",
        "ALTER MATERIALIZED TABLE sold REFRESH;",
    ),
    StatementHelp(
        "ALTER TABLE",
        "ALTER TABLE [IF EXISTS] name SET ('option' = 'value', ...) | RESET ('option', ...)\n"
        "ALTER TABLE [IF EXISTS] name RENAME TO name",
        "Changes options or the name of a table of CREATE TABLE ... WITH. Running streams keep\n"
        "their options.",
        "ALTER TABLE bids SET ('scan.startup.mode' = 'latest-offset');",
    ),
    StatementHelp(
        "DROP",
        "DROP [TEMPORARY] TABLE | VIEW [IF EXISTS] name\nDROP MATERIALIZED TABLE [IF EXISTS] name",
        "Removes a table or view. Files remain, except for the slices of a materialized table,\n"
        "which are deleted.",
        "DROP TABLE IF EXISTS bids;",
    ),
    StatementHelp(
        "SHOW",
        "SHOW TABLES | VIEWS | MATERIALIZED TABLES | FUNCTIONS [LIKE 'pattern']\n"
        "SHOW STREAMS\nSHOW STATE OF 'checkpoint'\n"
        "SHOW CREATE TABLE | VIEW | MATERIALIZED TABLE name\nSHOW CREATE TABLE 'path'",
        "Lists objects. In a pattern, `%` stands for any text and `_` for one character. SHOW\n"
        "STREAMS shows the status of the session's streams, and why a stream emits nothing. SHOW\n"
        "STATE OF summarizes the state in a checkpoint; `SELECT * FROM\n"
        "TABLE(STATE('checkpoint'))` returns its rows.",
        "SHOW TABLES LIKE 'b%';",
    ),
    StatementHelp(
        "STOP STREAM",
        "STOP STREAM number | name",
        "Stops a stream that INSERT started, after the current micro-batch.",
        "STOP STREAM 1;",
    ),
    StatementHelp(
        "DESCRIBE",
        "DESCRIBE | DESC [EXTENDED] name\nDESCRIBE | DESC 'path'",
        "Lists the columns of a table, a view or files, with their types.",
        "DESCRIBE bids;",
    ),
    StatementHelp(
        "ADVISE",
        "ADVISE [WITH ('arrival' = 'column', 'partition' = 'column', 'every' = 'duration',\n"
        "  'delay' = 'duration, ...')] query",
        "Shows what delays of the watermark would have done to the rows that a query's table has:\n"
        "rows dropped, windows short of rows, waits, state. See\n"
        "[Which delay a watermark should have](advise.md).",
        "ADVISE WITH ('every' = '10 s')\n"
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bidtime),\n"
        "  INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;",
    ),
    StatementHelp(
        "SUMMARIZE",
        "SUMMARIZE name | 'path' | query",
        "Shows statistics of each column: number of values and NULLs, approximate number of\n"
        "distinct values, range, mean and quantiles.",
        "SUMMARIZE bids;",
    ),
    StatementHelp(
        "SET, RESET",
        "SET ['key' [= 'value']]\nRESET ['key']",
        "SET changes a setting, or shows one or all. RESET restores the default of one or all.\n"
        "See [Settings](reference-settings.md).",
        "SET 'table.local-time-zone' = 'Europe/Berlin';",
    ),
    StatementHelp(
        "USE",
        "USE [CATALOG | DATABASE] name",
        "Selects the Spark catalog or database in which names are resolved.",
        "USE DATABASE default;",
    ),
)

CLAUSES = (
    StatementHelp(
        "ASOF JOIN, MATCH_CONDITION",
        "table ASOF [INNER | LEFT] JOIN table MATCH_CONDITION (left >= right) [ON keys]\n"
        "table ASOF [INNER | LEFT] JOIN table ON keys AND left >= right\n"
        "table ASOF [INNER | LEFT] JOIN table USING (key, ..., time)",
        "Joins each row with the last row of its key at or before its time. The comparison can\n"
        "be >=, >, <= or <. With MATCH_CONDITION, rows without a match are kept unless INNER is\n"
        "given; without it, they are dropped unless LEFT is given. Batch only: see\n"
        "[As-of joins](sql.md#as-of-joins).",
        "SELECT b.item, b.ts, l.viewer\n"
        "FROM bids AS b ASOF JOIN looks AS l MATCH_CONDITION (b.ts >= l.ts) ON b.item = l.item;",
    ),
    StatementHelp(
        "FOR SYSTEM_TIME AS OF",
        "[LEFT] JOIN table FOR SYSTEM_TIME AS OF time [AS name] ON key = key [AND ...]",
        "Joins each row with the version of the table that was valid at its time. The table has\n"
        "a PRIMARY KEY and a WATERMARK; with PROCTIME() as the time, it is joined as it is now.\n"
        "See [Temporal joins](sql.md#temporal-joins).",
        "SELECT o.item, o.price, c.cost\n"
        "FROM bids AS o LEFT JOIN costs FOR SYSTEM_TIME AS OF o.ts AS c ON o.item = c.item;",
    ),
    StatementHelp(
        "FILL",
        "GROUP BY ... [HAVING ...]\n"
        "FILL (name = value | LOCF | LINEAR, ...) [FROM time] [TO time] [KEYS (query)]",
        "Adds a row for each window without rows, after GROUP BY. A column without a value is\n"
        "NULL. See [Gap filling](gap-filling.md).",
        "SELECT item, window_start, COUNT(*) AS n, LAST(price) AS price\n"
        "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES))\n"
        "GROUP BY item, window_start, window_end FILL (n = 0, price = LOCF);",
    ),
    StatementHelp(
        "GROUPING SETS, ROLLUP, CUBE",
        "GROUP BY window_start, window_end, GROUPING SETS ((key, ...), ...)\n"
        "GROUP BY window_start, window_end, ROLLUP | CUBE (key, ...)",
        "Groups by several sets of keys at once. Keys outside of a row's set are NULL;\n"
        "GROUPING(key) is then 1. See [Grouping sets](sql.md#grouping-sets).",
        "SELECT window_end, item, COUNT(*) AS n\n"
        "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))\n"
        "GROUP BY window_start, window_end, ROLLUP (item);",
    ),
    StatementHelp(
        "QUALIFY",
        "SELECT ... [HAVING condition] QUALIFY condition",
        "Keeps the rows that meet a condition on functions with OVER, such as the first rows of\n"
        "each window. See [Top-N](sql.md#top-n-of-each-window).",
        "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))\n"
        "QUALIFY ROW_NUMBER() OVER (\n"
        "  PARTITION BY window_start, window_end ORDER BY price DESC) <= 3;",
    ),
    StatementHelp(
        "WATERMARK",
        "CREATE TABLE name (column TIMESTAMP(3), ..., WATERMARK FOR column AS expression)",
        "Declares how late rows may arrive: a window of a stream is emitted when the watermark\n"
        "reaches its end. Batch queries ignore it. See [Watermarks](streaming.md#watermarks).",
        "CREATE TABLE bids (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS)\n"
        "WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');",
    ),
    StatementHelp(
        "CURRENT_WATERMARK",
        "CURRENT_WATERMARK(column)",
        "Returns the watermark of a stream, NULL before the first. `ts <= CURRENT_WATERMARK(ts)`\n"
        "holds for late rows. For queries without windows; see\n"
        "[Late rows](streaming.md#late-rows).",
        "SELECT * FROM bids WHERE ts <= CURRENT_WATERMARK(ts);",
    ),
    StatementHelp(
        "PROCTIME",
        "CREATE TABLE name (..., column AS PROCTIME())",
        "Adds a column with the time at which a row is processed, for windows and temporal\n"
        "joins. See [Processing time](streaming-time.md#processing-time).",
        "CREATE TABLE bids (item STRING, seen AS PROCTIME())\n"
        "WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');",
    ),
    StatementHelp(
        "OPTIONS",
        "table /*+ OPTIONS('option' = 'value', ...) */",
        "Changes options of CREATE TABLE ... WITH for one statement. The hint follows the name\n"
        "of the table and precedes its alias.",
        "SELECT * FROM bids /*+ OPTIONS('path' = 'older-bids') */ AS b;",
    ),
    StatementHelp(
        "STATE_TTL",
        "SELECT /*+ STATE_TTL('table' = 'time') */ ...",
        "Sets how long a stream keeps the state of a key that does not change, for a SELECT that\n"
        "groups or ranks without a window. See\n"
        "[Time-to-live of state](streaming.md#time-to-live-of-state).",
        "SELECT /*+ STATE_TTL('bids' = '1 d') */ item, COUNT(*) AS n FROM bids GROUP BY item;",
    ),
)
