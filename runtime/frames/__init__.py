"""What batch and streams both do with DataFrames."""
