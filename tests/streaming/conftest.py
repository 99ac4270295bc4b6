"""Property tests of the operator: small examples, no time limit for a single one."""

from hypothesis import settings

settings.register_profile("streaming", deadline=None, max_examples=30)
settings.load_profile("streaming")
