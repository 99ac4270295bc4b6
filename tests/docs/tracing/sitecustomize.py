"""Start tracing in Spark's Python workers; see `tests.docs.walks`."""

import os
import sys

if "SQLWIN_WALK" in os.environ and "pyspark.daemon" in sys.orig_argv:
    from tests.docs.walks import Tracer

    Tracer("tasks", os.environ["SQLWIN_WALK"]).start()
