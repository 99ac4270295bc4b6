"""Fixtures of tests that drive operators without Spark."""

import pytest

from runtime.streaming.state import spans


@pytest.fixture
def spans_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running aggregates, however few partials there are."""
    monkeypatch.setattr(spans, "FEW_ROWS", 0)
    monkeypatch.setattr(spans, "SLICES_A_KEY", 0)
