"""Language server: errors, plans, completion and help for editors.

`scripts` and `answers` compute from the text and a session that never starts Spark. Only `server`
imports pygls, and speaks the Language Server Protocol with it.
"""
