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
        "[ORDER BY expression, ...] [LIMIT n]",
        "A query, as Spark reads it, with window functions in FROM. Types, functions, joins,\n"
        "casts and NULLs are Spark's in ANSI mode.",
        "SELECT window_start, window_end, item, SUM(price) AS total\n"
        "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))\n"
        "GROUP BY window_start, window_end, item;",
    ),
    StatementHelp(
        "EXPLAIN",
        "EXPLAIN [PLAN FOR | detail, ...] statement",
        "What a query or INSERT would do: the trees, the slices, the rules that applied, and\n"
        "why the others did not. [explain.md](explain.md) has the details.",
        "EXPLAIN SELECT COUNT(*) FROM bids;",
    ),
    StatementHelp(
        "INSERT",
        "INSERT INTO | OVERWRITE table [PARTITION (column [= value], ...)] [(column, ...)] query",
        "Writes the rows of a query to a table; OVERWRITE replaces what is there.",
        "INSERT INTO totals SELECT item, SUM(price) FROM bids GROUP BY item;",
    ),
    StatementHelp(
        "EXECUTE STATEMENT SET",
        "EXECUTE STATEMENT SET BEGIN insert; [insert; ...] END\n"
        "BEGIN STATEMENT SET; insert; [insert; ...] END",
        "Several INSERT as one.",
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
        "A table of the session over files, generated rows, a sink: see\n"
        "[Connectors](#connectors).\n"
        "Columns may be left out where the data names and types its own. With AS it is filled.",
        "CREATE TABLE bids (\n"
        "  ts TIMESTAMP(3), item STRING, price DOUBLE, tax AS price * 0.19,\n"
        "  WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS\n"
        ") WITH ('connector' = 'filesystem', 'path' = 'bids.csv', 'format' = 'csv');",
    ),
    StatementHelp(
        "CREATE VIEW",
        "CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(column, ...)]\n"
        "[COMMENT 'text'] AS query",
        "A name for a query.",
        "CREATE VIEW dear AS SELECT * FROM bids WHERE price > 100;",
    ),
    StatementHelp(
        "CREATE MATERIALIZED TABLE",
        "CREATE MATERIALIZED TABLE [IF NOT EXISTS] name [COMMENT 'text']\n"
        "[PARTITIONED BY (key, ...)] [WITH ('path' = 'directory', ...)]\n"
        "[FRESHNESS = INTERVAL 'n' unit] [REFRESH_MODE = FULL | CONTINUOUS] [AS query]",
        "A window aggregation that is kept as slices, from which queries over the same table are\n"
        "answered: see [Materialized tables](materialized-tables.md). Without AS one that is\n"
        "there is opened. FULL ones follow the files of the table; rows of CONTINUOUS ones come\n"
        "by INSERT, of batches and streams. 'slices.tiers' = '1 min for 7 d, 1 h' merges old\n"
        "slices, 'slices.retention' = '1 y' drops them.",
        "CREATE MATERIALIZED TABLE sold WITH ('path' = 'sold') AS\n"
        "SELECT item, window_start, window_end, SUM(price) AS total\n"
        "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))\n"
        "GROUP BY item, window_start, window_end;",
    ),
    StatementHelp(
        "ALTER MATERIALIZED TABLE",
        "ALTER MATERIALIZED TABLE name REFRESH | SUSPEND | RESUME",
        "REFRESH takes in new files, and computes slices anew of which files changed or went;\n"
        "`sqlwin refresh ...` passes over a table that is suspended.",
        "ALTER MATERIALIZED TABLE sold REFRESH;",
    ),
    StatementHelp(
        "DROP",
        "DROP [TEMPORARY] TABLE | VIEW [IF EXISTS] name\nDROP MATERIALIZED TABLE [IF EXISTS] name",
        "Forgets a table or view; files stay, but for the slices of a materialized table.",
        "DROP TABLE IF EXISTS bids;",
    ),
    StatementHelp(
        "SHOW",
        "SHOW TABLES | VIEWS | MATERIALIZED TABLES | FUNCTIONS [LIKE 'pattern']\n"
        "SHOW STREAMS\nSHOW STATE OF 'checkpoint'\n"
        "SHOW CREATE TABLE | VIEW | MATERIALIZED TABLE name\nSHOW CREATE TABLE 'path'",
        "What there is; in a pattern, `%` stands for any text and `_` for a character. SHOW\n"
        "STREAMS shows the state of the session's streams, and why one emits nothing. SHOW STATE\n"
        "OF shows what a stream keeps, `SELECT * FROM TABLE(STATE('checkpoint'))` has its rows.",
        "SHOW TABLES LIKE 'b%';",
    ),
    StatementHelp(
        "STOP STREAM",
        "STOP STREAM number | name",
        "Stops a stream that INSERT has started, after the micro-batch that is running.",
        "STOP STREAM 1;",
    ),
    StatementHelp(
        "DESCRIBE",
        "DESCRIBE | DESC [EXTENDED] name\nDESCRIBE | DESC 'path'",
        "The columns of a table, a view or files, with their types.",
        "DESCRIBE bids;",
    ),
    StatementHelp(
        "SUMMARIZE",
        "SUMMARIZE name | 'path' | query",
        "What is in each column: values, NULLs, about how many distinct values, range, mean and\n"
        "quantiles.",
        "SUMMARIZE bids;",
    ),
    StatementHelp(
        "SET, RESET",
        "SET ['key' [= 'value']]\nRESET ['key']",
        "Changes a setting, shows one or all, or gives it its default again; see\n"
        "[Settings](#settings).",
        "SET 'table.local-time-zone' = 'Europe/Berlin';",
    ),
    StatementHelp(
        "USE",
        "USE [CATALOG | DATABASE] name",
        "The catalog or database of Spark in which names are looked up.",
        "USE DATABASE default;",
    ),
)
