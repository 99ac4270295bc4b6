"""SQL text to sqlglot trees: the dialect that sqlwin reads."""
