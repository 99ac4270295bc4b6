"""PostgreSQL's catalogs of a session, as tables of SQLite in memory.

`relations` has the columns and types of PostgreSQL's catalogs, `tables` their rows for a session's
tables. `rewrite` turns a client's query into one of SQLite, for which `functions` has PostgreSQL's
functions; `types` finds the types of its columns. `database` joins them, and `statement` answers
the protocol. Only `statement` uses pg-mimic.
"""
