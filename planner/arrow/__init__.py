"""Translation of Spark SQL into expressions that the Arrow scan evaluates.

Takes typed SQL expressions and gives `runtime.spec.expressions`, or the reason why only Spark can
evaluate them.
"""
