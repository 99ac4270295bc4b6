"""Types of expressions and columns as Spark determines them, without Spark."""
