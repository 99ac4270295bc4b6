"""Bring the rows of a batch query from Spark's tasks to this process, as Arrow batches.

Takes rows that a Spark job computes and a limit in bytes; gives an iterator of batches in the order
of the rows. Its memory is bounded by the limit, however large the result is. Closing the iterator
early cancels the job and removes the tasks' files.
"""
