"""Connector 'hybrid': a bounded table, its history, and then an unbounded one, as one table.

A stream reads the history in ranges of time, one per micro-batch, and then the second table. One
offset of one Spark source holds the position in both, so that the change from one to the other is
an entry of Spark's offset log like any other (`source.py`).
"""
