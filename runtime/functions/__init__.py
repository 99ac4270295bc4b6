"""Functions with all that the planner, the runtime and help know about them."""
