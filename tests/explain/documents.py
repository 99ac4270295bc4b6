"""The documented schema of EXPLAIN's JSON."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.goldens import ROOT

_SCHEMA = json.loads((ROOT / "docs/explain.schema.json").read_text())


def check_document(document: dict[str, Any]) -> None:
    """Fail unless a document follows the schema, and every id in it names an operator."""
    jsonschema.validate(document, _SCHEMA)
    for query in document["queries"]:
        for tree in (query["trees"] or {}).values():
            ids = [each["id"] for each in tree["operators"]]
            assert len(set(ids)) == len(ids)
            assert tree["root"] == ids[0]
            inputs = [source for each in tree["operators"] for source in each["inputs"]]
            # an operator that several others read is there once
            assert {*inputs, tree["root"]} == set(ids)
        if query["trees"]:
            physical = {each["id"] for each in query["trees"]["physical"]["operators"]}
            assert {window["operator"] for window in query["windows"]} <= physical
            if query["analysis"]:
                assert set(query["analysis"]["operators"]) == physical
