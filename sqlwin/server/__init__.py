"""PostgreSQL's wire protocol, for programs that read PostgreSQL.

`translation` maps texts, types and errors between PostgreSQL and sqlwin, and needs no library.
`client` runs the statements of one connection, `server` listens; both use pg-mimic.
"""
