"""Help texts and the reference. Imports little, and not Spark."""
