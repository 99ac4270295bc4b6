"""The plan that the runtime executes: one tree for batches, streams and this process."""
