"""Faults planted into operators, kernels, watermarks and state, which the simulator must find.

`python -m tests.mutants` plants one fault at a time into the modules that a process loads, and runs
the battery of `tests.mutants.battery` there. Files are not changed. It prints the seed and the
reason for each fault, and fails if fewer than `LEAST` of them are found.
"""
