"""The local stage inside a scan of Parquet files: row groups in, partials of slices out."""
