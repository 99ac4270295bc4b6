"""Tables and views of a session.

Takes definitions from statements and gives the planner's catalog (`planner.catalog`): columns,
streams, files, slices. Starts Spark only for what declarations and files cannot answer.
"""
