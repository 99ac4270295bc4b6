"""PostgreSQL: tables written by key or appended, and read as bounded tables."""
