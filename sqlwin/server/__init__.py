"""PostgreSQL's wire protocol, for programs that read PostgreSQL.

`translation` maps texts, types and errors between PostgreSQL and sqlwin, and needs no library. With
pg-mimic, `client` runs the statements of a connection, `connection` sends their rows and `server`
listens.
"""
