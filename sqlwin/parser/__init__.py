"""Parser of sqlwin's SQL dialect, producing sqlglot trees."""
