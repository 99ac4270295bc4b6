"""Slice tables: partials stored in Delta tables that follow the files of a base table.

Takes planned local stages and rows to insert, and gives files of slices to read. Knows Delta's log
and object stores, but neither SQL nor the catalog; `sqlwin.catalog` decides when to refresh.
"""
