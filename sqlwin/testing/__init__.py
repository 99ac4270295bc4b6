"""Tests of window queries: `sqlwin test` and the pytest plugin.

A case has tables with rows, a query and expectations. It runs in batch, as a stream that is cut at
every row, and in random histories of the simulator. All must agree.
"""
