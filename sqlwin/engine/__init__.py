"""The background engine: a Spark that is there when the next command of this user needs it.

Spark takes ten seconds to start, and a short query less than one. So `sqlwin run` and `sqlwin
explain` leave an engine behind, and the commands after them run there:

    command (client.py)                 engine (server.py)              run (run.py)
    reads its scripts          ---->    Python with all modules   --->  forked of the engine; on the
    passes stdin, stdout,      socket   loaded; started the JVM   fork  JVM by a gateway of its own
    stderr; passes signals on           and never connects to it        has the command's directory,
    exits with the run's code  <------------------------------------    environment and streams

A run is a process of its own, with the command's own standard streams, so that directories,
environment, signals, terminals and pipes are as without an engine, and nothing of a run is there in
the next. What is of the JVM (catalog, cached tables, settings, temporary views, gateway) is made
anew for each run: `sqlwin.engine.attached`. Runs come one after another. Whoever finds the engine
busy starts a Spark of its own, as does everybody whom the engine cannot serve as well:
`client.unfit`. Decided against: several runs at a time, since Spark's default session and its
cancelling of jobs are the JVM's; and a command that connects to the JVM by itself, since it would
have to import PySpark and the planner, which takes as long as a query.

The next run is forked and attached before anybody asks for it. A command hands over its request
(wire.py), the run answers that it is ready, and begins when the command says so. Up to then the
command may always do without the engine; from then on statements may have written something, and
an engine that breaks is an error. The engine ends where it is in doubt about what a run has left
behind: the run was killed, or Spark with it.

An engine is for one user, and for one of all that cannot be changed while it runs: place.py.
"""
