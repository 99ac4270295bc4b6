"""The connector 'kafka': by confluent-kafka, or by Spark's own package."""
