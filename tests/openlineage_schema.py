"""JSON schemas of OpenLineage's events, from the classes that openlineage-python generates from it.

The published schema allows any field in a facet. These schemas have only the fields of the facet's
class, because a misspelt field would be lost in silence.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from enum import Enum
from functools import cache
from typing import Any

import attr
import jsonschema
from openlineage.client import event_v2, generated
from openlineage.client.generated.base import BaseFacet

from sqlwin.observers.stream_events import MICRO_BATCHES, MicroBatchesRunFacet

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_FORMATS = {
    "eventTime": "date-time",
    "runId": "uuid",
    "producer": "uri",
    "schemaURL": "uri",
    "_producer": "uri",
    "_schemaURL": "uri",
}
# The only facets of our own. They have the schema of all run facets
_OWN = {MICRO_BATCHES: MicroBatchesRunFacet}


def validate_event(event: dict[str, Any]) -> None:
    """Check an event of a run, and its facets.

    Raises:
        jsonschema.ValidationError: A field is missing, unknown, or of another type.
    """
    _validate(event, _schema_of(event_v2.RunEvent))
    jsonschema.validate(event["eventType"], {"enum": [state.value for state in event_v2.RunState]})
    parts = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for part in parts:
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in part.get(kind, {}).items():
                _validate(facet, _schema_of(_OWN.get(name) or _classes()[facet["_schemaURL"]]))


def _validate(value: object, schema: dict[str, Any]) -> None:
    jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker())


@cache
def _classes() -> dict[str, type]:
    """Return the classes of OpenLineage's facets by the URLs of their schemas."""
    classes: dict[str, type] = {}
    for module in pkgutil.iter_modules(generated.__path__):
        for value in vars(importlib.import_module(f"{generated.__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, BaseFacet):
                classes[value._get_schema()] = value
    return classes


@cache
def _schema_of(class_: type) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    return {**_reference(class_, definitions), "$defs": definitions}


def _reference(class_: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to the schema of a class, which is added to the definitions."""
    if class_.__name__ not in definitions:
        definitions[class_.__name__] = {}  # a class may have fields of its own type
        hints = typing.get_type_hints(class_)
        fields = {field.name: field for field in attr.fields(class_)}
        definitions[class_.__name__] = {
            "type": "object",
            "additionalProperties": False,
            "required": [
                name
                for name, field in fields.items()
                if field.default is attr.NOTHING or name in ("_producer", "_schemaURL")
            ],
            "properties": {
                name: _json_type(hints[name], definitions) | _format(name) for name in fields
            },
        }
    return {"$ref": f"#/$defs/{class_.__name__}"}


def _format(field: str) -> dict[str, Any]:
    return {"format": _FORMATS[field]} if field in _FORMATS else {}


def _json_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # a field without a value is left out of the JSON
        kinds = [kind for kind in arguments if kind is not type(None)]
        return {"anyOf": [_json_type(kind, definitions) for kind in kinds]}
    if origin is list:
        return {"type": "array", "items": _json_type(arguments[0], definitions)}
    if origin is dict:
        # facets have schemas of their own
        is_facet = isinstance(arguments[1], type) and issubclass(arguments[1], BaseFacet)
        values = {"type": "object"} if is_facet else _json_type(arguments[1], definitions)
        return {"type": "object", "additionalProperties": values}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    return _reference(hint, definitions) if attr.has(hint) else {}
