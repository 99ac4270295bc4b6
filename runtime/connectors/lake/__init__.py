"""Delta and Iceberg tables through Python libraries, without jars."""
