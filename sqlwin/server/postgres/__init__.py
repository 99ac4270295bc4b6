"""PostgreSQL's SQL of clients, translated to sqlwin's before anything judges or runs it.

`reader` parses a statement, `types` and `inference` type its expressions, `rules` and the modules
below it spell each construct of PostgreSQL as sqlwin does, `statement` puts the parts together.
"""
