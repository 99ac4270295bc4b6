"""Arrow batches to new files: takes batches and a place, returns descriptions of the files.

Files are on disks that this process or a task sees, or in an object store. When readers see them is
decided by the callers: connectors and tables with a log.
"""
