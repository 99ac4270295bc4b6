"""Plan window queries: from a sqlglot tree to the steps that the runtime executes.

The planner is pure Python and never starts Spark. It plans the window blocks of a query and leaves
the rest to Spark SQL as text.
"""
