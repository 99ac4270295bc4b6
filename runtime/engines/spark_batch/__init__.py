"""The engine of batches on Spark: local stage, exchange, global stage."""
