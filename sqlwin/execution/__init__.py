"""Statement execution: planning, running, EXPLAIN and measurements.

Takes parsed statements and the session's catalog and settings, and gives results (`sqlwin.result`).
Only this package connects planner and runtime.
"""
