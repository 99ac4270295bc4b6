"""Functions, as the planner, the oracle and help read them."""
