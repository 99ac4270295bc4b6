"""Tests of sqlwin/engine."""
