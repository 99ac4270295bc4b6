"""Parsing of scripts into statements, without executing anything."""
