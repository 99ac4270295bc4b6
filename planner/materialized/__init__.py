"""Materialized tables: the partials they store and the queries they can answer.

Takes logical plans and the forms of stored slices, and gives plans that read slices, or the reason
why a query cannot be answered from them.
"""
