"""Property tests of the runtime: many small examples, no time limit for a single one."""

from hypothesis import settings

settings.register_profile("runtime", deadline=None, max_examples=30)
settings.load_profile("runtime")
