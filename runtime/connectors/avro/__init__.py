"""Avro messages: decoded column by column, with schemas from options or a schema registry."""
