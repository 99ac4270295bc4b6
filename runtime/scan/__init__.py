"""Read Parquet files in tasks with Arrow, on local disks and in object stores.

Takes a `ScanSource` and filters and gives splits, and their rows as record batches with Spark's
types. Knows footers, pruning and store clients, but no Spark.
"""
