"""Steps over streams to streaming DataFrames."""
