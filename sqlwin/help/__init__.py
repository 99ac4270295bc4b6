"""Help texts and the reference, from declared tables of options, functions and settings.

Imports no Spark, so that help is printed at once.
"""
