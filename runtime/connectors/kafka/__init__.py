"""The connector 'kafka': read and written by confluent-kafka."""
