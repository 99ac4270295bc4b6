"""Tests of slice tables."""
