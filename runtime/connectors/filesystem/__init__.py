"""The connector 'filesystem'."""
