"""Language server: what `sqlwin explain` and the prompt know, for editors.

`scripts` and `answers` compute from the text and a session that never starts Spark. `server` speaks
the Language Server Protocol with pygls, and alone imports it.
"""
