"""The options of WITH (...): their names, help and checks. Imports no Spark."""
