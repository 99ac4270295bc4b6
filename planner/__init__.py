"""The planner: from sqlglot's tree to a description of what the runtime does.

Pure Python: it never starts Spark. It owns the window blocks of a query and hands everything else
through to Spark SQL as text.
"""
