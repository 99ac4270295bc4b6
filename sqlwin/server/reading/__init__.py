"""What clients of a read-only server may send.

Each statement is judged before anything of it is planned, by lists of what is allowed: kinds of
statements (`guard`), expressions and functions of its tree (`trees`), tables and files
(`relations`, `paths`). A text that Spark parses itself is judged again by Spark's own tree of that
text, before Spark analyses it (`spark_trees`), because Spark may read it differently. A query that
runs on Spark is judged once more by the plan that Spark has made, before its tasks run
(`spark_plans`).
"""
