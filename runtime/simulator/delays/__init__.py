"""Predict the rows that a stream drops with a delay, from rows in their order of arrival."""
