"""The interactive prompt: `sqlwin repl`.

Takes keys from a terminal and runs statements in a session, on a thread of its own so that Ctrl-C
works. Completion reads names in the background and never waits for Spark.
"""
