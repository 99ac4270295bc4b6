"""Connector 'kafka', which reads and writes with confluent-kafka."""
