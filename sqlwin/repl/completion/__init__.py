"""Completion: what can stand at the cursor."""
