"""Runs streaming queries without Spark, through histories that a seed decides.

Takes a `SimulatedQuery` and the rows of its tables. A history says in which order rows arrive, how
they are cut into micro-batches and split over tasks, what the clock shows, and where the stream
crashes, restarts or is rescaled. The local stage, the exchange's messages, the window operators and
the state codec are the ones that Spark's tasks run; offsets, state and the sink are in memory.
"""
