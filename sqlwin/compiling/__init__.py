"""Queries as SQL of other engines: `sqlwin compile` and `sqlwin.compile`.

Definitions of a script run in a session that never starts Spark. Its tables only need columns: a
table whose columns are declared is not read.
"""
