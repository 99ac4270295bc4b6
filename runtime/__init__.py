"""Everything that runs on Spark: scans, operators, exchanges, state, sources and sinks.

Takes the frozen steps of `runtime.spec` from the planner and gives rows. Knows no SQL syntax and no
plan: it imports neither `planner` nor `sqlwin`. Spark ships the package to workers as a zip file.
"""
