"""Tests of planner.materialized."""
