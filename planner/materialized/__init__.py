"""Materialized tables: the partials they store and the queries they can answer.

Takes logical plans and the forms of stored slices, and gives plans that read slices. Functions
raise `Refused` if a query cannot be stored in slices or answered from them.
"""
