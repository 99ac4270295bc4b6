"""EXPLAIN ROW: from which rows of tables a row of a result is computed."""
