"""Build streaming DataFrames from steps."""
