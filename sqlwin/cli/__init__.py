"""The command line: one module per command.

Takes arguments and files, runs statements in a session, and prints results and errors.
"""
