"""What EXPLAIN says of rules as data."""

from __future__ import annotations

from planner.explain.document import rule_summary
from planner.rules import RULE_NAMES


def test_every_rule_has_a_sentence_that_says_what_it_does() -> None:
    assert len(RULE_NAMES) >= 10
    for name in RULE_NAMES:
        text = rule_summary(name)
        assert text.endswith(".") and 20 < len(text) <= 100, f"{name}: {text!r}"
