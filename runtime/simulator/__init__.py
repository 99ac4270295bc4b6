"""Runs streaming queries without Spark, through histories determined by a seed.

Takes a `SimulatedQuery` and the rows of its tables. A history is the order in which rows
arrive, the micro-batches and tasks that get them, the clock, and the moments at which the stream
crashes, restarts or is rescaled. The local stage, the exchange's messages, the window operators and
the state codec are the ones that Spark's tasks run; offsets, state and the sink are in memory.
"""
