"""Options of WITH (...): names, help and checks. Imports no Spark."""
