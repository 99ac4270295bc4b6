"""Tables and views of a session.

Takes definitions from statements and gives the planner's catalog (`planner.catalog`): columns,
streams, files, slices. Knows Spark's catalog, and asks Spark only when it must.
"""
