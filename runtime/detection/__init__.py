"""Detect format, dialect, columns and types of files from a sample, without Spark.

Takes paths and declared options and gives columns with types, options, and notes for the user.
"""
