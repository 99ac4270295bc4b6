"""Parser of sqlwin's SQL dialect, on sqlglot.

Takes text and gives sqlglot trees with positions, or a syntax error. Knows no tables.
"""
