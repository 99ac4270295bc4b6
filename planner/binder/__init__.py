"""Binding of SQL trees to logical plans.

Takes a sqlglot tree and the catalog and gives logical nodes. Window blocks become nodes; the other
parts of a query stay SQL text for Spark. Errors have the position in the user's SQL.
"""
