"""Open the slices of a key group with the store that the planner chose."""

from __future__ import annotations

from runtime.plan.streams import SliceStoreKind
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.levels import SharedSpec
from runtime.streaming.slices.plain import PlainSlices
from runtime.streaming.slices.running_slices import RunningSlices
from runtime.streaming.slices.store import SliceStore
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.contents import span_blobs
from runtime.streaming.state.metadata import RunningMetadata, SliceMetadata, SpanMetadata


def open_slices(
    spec: SharedSpec,
    blobs: BlobStore,
    metadata: SliceMetadata | None,
    generation: int,
    thresholds: Thresholds,
) -> SliceStore:
    """Open the slices of a key group.

    Spans of another generation or of another store are dropped, which loses nothing: they are
    computed from slices.

    Args:
        spec: Window aggregations and their partials.
        blobs: State that holds the slices.
        metadata: Metadata of the last micro-batch. None at first.
        generation: Number of changes of windows or accumulators.
        thresholds: When spans are stored, and when chunks of slices are merged.
    """
    if metadata is None:
        metadata = SliceMetadata((), {}, generation)
    usable: dict[int, SpanMetadata] = {}
    for number, spans in metadata.spans.items():
        if metadata.generation == generation and _kind_of(spans) is spec.readers[number].store:
            usable[number] = spans
            continue
        for blob in span_blobs(spans):
            blobs.remove(blob)
    metadata = SliceMetadata(metadata.levels, usable, generation)
    is_plain = all(reader.store is SliceStoreKind.PLAIN for reader in spec.readers)
    store = PlainSlices if is_plain else RunningSlices
    return store(spec, blobs, metadata, thresholds)


def _kind_of(spans: SpanMetadata) -> SliceStoreKind:
    if isinstance(spans, RunningMetadata):
        return SliceStoreKind.RUNNING_AGGREGATES
    return SliceStoreKind.RUNNING_TOTALS
