"""Messages of Avro: decoded a column at a time, schemas from options or a registry."""
