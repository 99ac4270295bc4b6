"""Spark's workers do not repeatedly garbage-collect the objects of their modules."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import gc, pyarrow as pa
from runtime.spark.workers import prepare_worker

class Node:
    pass

def garbage():
    node = Node()
    node.itself = node
    return id(node)

garbage()
prepare_worker()
assert pa.cpu_count() == 1
frozen = gc.get_freeze_count()
assert frozen > 10_000
assert not [each for each in gc.get_objects() if isinstance(each, Node)]
seen_by_collector = len(gc.get_objects())
assert seen_by_collector < frozen / 100, seen_by_collector

# a later task finds nothing new, and its garbage is still collected
prepare_worker()
assert gc.get_freeze_count() <= frozen
garbage()
assert gc.collect() > 0

# modules that another function has loaded are taken out too
import pandas
prepare_worker()
assert gc.get_freeze_count() > frozen + 1_000
"""


def test_a_worker_collects_its_own_garbage_and_not_its_modules():
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


LIMITED = """
import resource
from runtime.spark.workers import fitting_bytes

assert fitting_bytes(64 << 20) == 64 << 20
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
assert fitting_bytes(64 << 20) == 32 << 20
assert fitting_bytes(1 << 20) == 1 << 20
"""


def test_a_worker_whose_memory_is_limited_works_on_less_at_a_time():
    process = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


REUSING = """
import resource, sys
import numpy as np
from runtime.spark.workers import prepare_worker

prepare_worker()

def pages_given(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        held = [np.ones(400_000) for _ in range(3)]  # 3.2 MB each: too small for large pages
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages_given(2)
assert pages_given(20) < 2_000, "memory was freed and allocated again"
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other options")
def test_a_worker_takes_the_memory_again_that_it_has_freed():
    process = subprocess.run([sys.executable, "-c", REUSING], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
