"""Connector 'filesystem'."""
