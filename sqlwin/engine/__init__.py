"""Background engine: a running Spark for the next commands of the same user.

Spark takes ten seconds to start, and a short query less than one. So `sqlwin run` and `sqlwin
explain` leave an engine behind, and later commands run in it:

    command (client.py)                 engine (server.py)              run (run.py)
    reads its scripts          ---->    Python with all modules   --->  forked of the engine; on the
    passes stdin, stdout,      socket   loaded; started the JVM   fork  JVM by a gateway of its own
    stderr; passes signals on           and never connects to it        has the command's directory,
    exits with the run's code  <------------------------------------    environment and streams

A run is a process of its own with the command's standard streams, so directories, environment,
signals, terminals and pipes work as without an engine, and no state is left for the next run. State
in the JVM (catalog, cached tables, settings, temporary views, gateway) is created again for each
run: `sqlwin.engine.attached`. Runs come one after another. A command starts its own Spark if the
engine is busy or cannot serve it: `client.unfit`. Runs are not concurrent, because the JVM has a
single default session and cancels jobs for all of it. Commands do not connect to the JVM
themselves, because importing PySpark and the planner takes as long as a query.

The next run is forked and attached before a command needs it. A command sends its request
(wire.py), the run answers that it is ready, and begins when the command tells it to. Until then the
command can still do without the engine. After that, statements may have written data, so a broken
engine is an error. The engine ends if the run or Spark was killed, because state may be left
behind.

An engine serves one user, and one set of everything that cannot change while it runs: place.py.
"""
