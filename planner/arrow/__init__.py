"""What the Arrow scan can evaluate in place of Spark."""
