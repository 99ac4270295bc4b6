"""Execute steps over streams as streaming DataFrames."""
