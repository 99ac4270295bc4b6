"""Specs are frozen values without process-local objects."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from importlib import import_module

import runtime.spec
from runtime.spec.table import TableSpec

LIVE = re.compile(r"\b(object|Callable|DataFrame|SparkSession|Lock)\b")


def specs() -> Iterator[type]:
    for module in pkgutil.iter_modules(runtime.spec.__path__):
        result = import_module(f"runtime.spec.{module.name}")
        for value in vars(result).values():
            if isinstance(value, type) and is_dataclass(value):
                yield value


def live_fields(spec: type) -> list[Field[object]]:
    return [field for field in fields(spec) if LIVE.search(str(field.type))]  # type: ignore[arg-type]


def test_specs_are_frozen_and_hold_no_live_objects() -> None:
    assert TableSpec in set(specs())
    wrong = [
        f"{spec.__name__}.{field.name}: {field.type}"
        for spec in specs()
        for field in live_fields(spec)
    ]
    assert not wrong
    assert not [spec for spec in specs() if not spec.__dataclass_params__.frozen]  # type: ignore[attr-defined]
