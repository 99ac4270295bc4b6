"""Help texts and the reference. Light to load: nothing here imports Spark."""
