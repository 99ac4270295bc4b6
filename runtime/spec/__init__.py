"""The contract between planner and runtime: frozen, picklable descriptions without behaviour."""
