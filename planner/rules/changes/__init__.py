"""Rules for windows over changes."""
