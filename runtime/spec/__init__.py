"""The contract between planner and runtime: frozen, picklable descriptions without behaviour.

The planner makes steps, windows, accumulators and expressions; the runtime executes them.
Connectors implement the protocols of sources and sinks. Imports no other room of the runtime.
"""
