"""The local stage: rows to partials of slices, before the exchange.

Takes a `LocalStep` and rows of Spark, files or messages, and gives tables of partials; in streams
also control messages. Runs in tasks and knows nothing of what reads the partials.
"""
