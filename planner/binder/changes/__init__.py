"""Bind FROM_CHANGELOG and TO_CHANGELOG: tables given by their changes, and changes as rows."""
