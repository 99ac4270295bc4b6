"""Engines that execute plans: this process, and Spark for batches."""
