"""Connectors: sources and sinks of tables, loaded by name through `registry`.

Takes table definitions (`runtime.spec.table`) and gives tables (`connector.Table`), which answer
with DataFrames, splits for tasks, and sinks. Knows no queries: other rooms import only `registry`,
never a connector.
"""
