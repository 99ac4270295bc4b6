"""Syntax, meaning and an example of every kind of statement, for the reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StatementHelp:
    """A kind of statement.

    Attributes:
        title: Name of the statement.
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
        "why others did not. See [explain.md](explain.md).",
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
