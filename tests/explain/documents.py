"""The documented schema of EXPLAIN's JSON."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.goldens import ROOT

_SCHEMA = json.loads((ROOT / "docs/explain.schema.json").read_text())


def check_document(document: dict[str, Any]) -> None:
    """Check that a document matches the schema, and that its ids name operators."""
    jsonschema.validate(document, _SCHEMA)
    for query in document["queries"]:
        for tree in (query["trees"] or {}).values():
            ids = [item["id"] for item in tree["operators"]]
            assert len(set(ids)) == len(ids)
            assert tree["root"] == ids[0]
            inputs = [source for item in tree["operators"] for source in item["inputs"]]
            # an operator with several readers occurs once
            assert {*inputs, tree["root"]} == set(ids)
        if query["trees"]:
            physical = {item["id"] for item in query["trees"]["physical"]["operators"]}
            assert {window["operator"] for window in query["windows"]} <= physical
            if query["analysis"]:
                tree = query["analysis"]["tree"]
                ran = physical if tree is None else {item["id"] for item in tree["operators"]}
                assert set(query["analysis"]["operators"]) == ran
