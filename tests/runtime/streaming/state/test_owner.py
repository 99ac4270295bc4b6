"""State is signed by its checkpoint, so state copied from another one is refused."""

from __future__ import annotations

import pytest

from runtime.errors import ExecutionError
from runtime.streaming.state.blobs import Owner
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import MS, Memory, Stream

OWN, OTHER = Owner("/ck/t", "aded9987"), Owner("/ck/t", "1b1f3c4e")


def feed(store: Memory, owner: Owner | None) -> None:
    """Process a micro-batch with a row whose window stays open."""
    Stream(Tumble(10_000 * MS), store=store, owner=owner).micro_batch([("a", 1, 1)], watermark=2)


def test_state_of_another_checkpoint_is_refused() -> None:
    store = Memory()
    feed(store, OTHER)
    with pytest.raises(ExecutionError) as caught:
        feed(store, OWN)
    assert caught.value.message == (
        "the checkpoint in /ck/t is damaged: /ck/t/spark/state belongs to another checkpoint"
    )
    assert caught.value.hint
    feed(store, OTHER)


def test_state_without_a_signature_is_refused() -> None:
    store = Memory()
    feed(store, None)
    with pytest.raises(ExecutionError, match="belongs to another checkpoint"):
        feed(store, OWN)
