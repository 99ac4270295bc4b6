"""Differences between versions of PySpark, the only module that knows them.

Takes a capability, and gives a refusal with its reason, or the same call in the form that the
running version has. Knows nothing about what its callers do with it.
"""
