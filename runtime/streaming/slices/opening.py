"""Open the slices of a key group with the store that the planner chose."""

from __future__ import annotations

from runtime.spec.stream_steps import SliceStoreKind
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.levels import SharedSpec
from runtime.streaming.slices.plain import PlainSlices
from runtime.streaming.slices.running_slices import RunningSlices
from runtime.streaming.slices.store import SliceStore
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.contents import span_blobs
from runtime.streaming.state.facts import RunningFacts, SliceFacts, SpanFacts


def open_slices(
    spec: SharedSpec,
    blobs: BlobStore,
    facts: SliceFacts | None,
    generation: int,
    thresholds: Thresholds,
) -> SliceStore:
    """Open the slices of a key group.

    Spans of another generation or of another store are dropped, which loses nothing: they are
    computed from slices.

    Args:
        spec: Window aggregations and their partials.
        blobs: State that holds the slices.
        facts: Facts of the last micro-batch. None at first.
        generation: Number of changes of windows or accumulators.
        thresholds: When spans are stored, and when chunks of slices are merged.
    """
    if facts is None:
        facts = SliceFacts((), {}, generation)
    usable: dict[int, SpanFacts] = {}
    for number, spans in facts.spans.items():
        if facts.generation == generation and _kind_of(spans) is spec.readers[number].store:
            usable[number] = spans
            continue
        for blob in span_blobs(spans):
            blobs.remove(blob)
    facts = SliceFacts(facts.levels, usable, generation)
    is_plain = all(reader.store is SliceStoreKind.PLAIN for reader in spec.readers)
    store = PlainSlices if is_plain else RunningSlices
    return store(spec, blobs, facts, thresholds)


def _kind_of(spans: SpanFacts) -> SliceStoreKind:
    if isinstance(spans, RunningFacts):
        return SliceStoreKind.RUNNING_AGGREGATES
    return SliceStoreKind.RUNNING_TOTALS
