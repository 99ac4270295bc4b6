"""Bind FROM_CHANGELOG: tables that are given by their changes."""
