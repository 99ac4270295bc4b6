"""Spark itself: session, JVM, workers, errors and status.

Takes masters, settings and exceptions and gives sessions, resolved paths, and errors of
sqlwin. Knows no tables and no windows.
"""
