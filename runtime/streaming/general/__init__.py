"""The general window operator: assigner, trigger, evictor, function, allowed lateness.

It runs windows that slices cannot express: windows that fire by count or by change, that evict rows
before they are computed, or whose function sees all rows. It follows the rules of Flink's
WindowOperator, processes one row at a time in plain Python, and does not depend on Spark (except
for `bounded`, which runs it over a DataFrame).

Times are int64 microseconds. A window ends when the watermark reaches its `last_us`, one
millisecond before `end_us`.
"""
