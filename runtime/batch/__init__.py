"""The batch operators, on Spark DataFrames."""
