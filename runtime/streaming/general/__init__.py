"""The general window operator: assigner, trigger, evictor, function, allowed lateness.

What slices cannot do: windows that fire by count or by change, that drop rows before they are
computed, or whose function sees all rows. It follows the rules of Flink's WindowOperator, row by
row and in plain Python, and knows nothing of Spark.

Times are int64 microseconds. A window is over when the watermark reaches its `last_us`, one
millisecond before its end.
"""
