"""Dataclasses as JSON, by the annotations of their fields.

The JSON of a dataclass has exactly its fields, so a change of a dataclass is a change of the
format. Fields that are not compared are left out. A named tuple is an array. Where an annotation is
a union of dataclasses, the field `kind` is the name of the class. `Any` stands for any JSON value.

Supported annotations: int, float, str, bool, None, Any, enumerations by value, dataclasses, named
tuples, optional types, unions of dataclasses, tuple, list, Sequence, and dict or Mapping with str
or int keys.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import product
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Convert = Callable[[Any], Any]

# JSON field with the name of a class, where the annotation allows several
KIND = "kind"
# JSON field with the version of a file's format
VERSION = "version"
_SCALARS = (bool, int, float, str)
_SEQUENCES = (tuple, list, Sequence)
_MAPPINGS = (dict, Mapping)


class MalformedRecordError(ValueError):
    """JSON without the fields or types of its dataclass, described in one line.

    Args:
        problem: Description, such as `expected an object, not 1`.
        path: Names of the fields around it, outermost first.
    """

    def __init__(self, problem: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"`{'.'.join(path)}`: {problem}" if path else problem)
        self._problem = problem
        self._path = path

    def within(self, field: str) -> MalformedRecordError:
        """Return the same error for a record that has this one in a field."""
        return MalformedRecordError(self._problem, (field, *self._path))


class OtherVersionError(ValueError):
    """JSON of another version of its format.

    Attributes:
        version: Version in the text. None if it has none.
    """

    def __init__(self, version: object, expected: int) -> None:
        super().__init__(f"it has format {version}, but this sqlwin reads format {expected}")
        self.version = version


def to_json(record: object) -> Any:
    """Return a dataclass as a JSON value."""
    type_: Any = type(record)
    encode = _encoder(type_)
    return record if encode is None else encode(record)


def from_json(type_: type[T], value: object) -> T:
    """Return the dataclass for the result of `to_json`.

    Raises:
        MalformedRecordError: A field is unknown, missing or of another type.
    """
    annotation: Any = type_
    record: T = _decoder(annotation)(value)
    return record


def round_trip(record: T) -> T:
    """Return a dataclass as read back from its JSON, for comparison with such a dataclass."""
    return from_json(type(record), json.loads(json.dumps(to_json(record))))


def to_text(record: object, version: int | None = None, *, indent: int | None = None) -> str:
    """Return a dataclass as JSON text, as the content of a file if it has a version."""
    if version is None:
        return json.dumps(to_json(record), indent=indent)
    return json.dumps({VERSION: version, **to_json(record)}, indent=indent) + "\n"


def from_text(type_: type[T], text: str, version: int | None = None) -> T:
    """Return the dataclass in JSON text.

    Args:
        type_: Dataclass.
        text: Return value of `to_text`.
        version: Version that the text must have. None if it has none.

    Raises:
        OtherVersionError: The text is of another version.
        MalformedRecordError: The text is not JSON, or a field is unknown, missing or of another
            type.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise MalformedRecordError(f"no JSON: {error}") from error
    if not isinstance(content, dict):
        raise MalformedRecordError(f"expected an object, not {_value_text(content)}")
    if version is not None and (written := content.pop(VERSION, None)) != version:
        raise OtherVersionError(written, version)
    return from_json(type_, content)


# -- encode ----------------------------------------------------------------------------------------


@cache
def _encoder(type_: Any) -> _Convert | None:
    """Return the function that encodes values of a type. None if they are JSON values already."""
    members, _ = _members(type_)
    if len(members) > 1:
        return _encode_kind
    [type_] = members
    origin, args = get_origin(type_), get_args(type_)
    if type_ in (Any, type(None), *_SCALARS):
        return None
    if origin is tuple and args[-1] is not Ellipsis:
        return _encoder_of_row(args)
    if origin in _SEQUENCES:
        return _encoder_of_sequence(args[0])
    if origin in _MAPPINGS:
        return _encoder_of_mapping(args[1])
    if issubclass(type_, Enum):
        return _value_of
    if is_dataclass(type_):
        return _encoder_of_fields(type_)
    return _encoder_of_row(get_type_hints(type_).values())


def _value_of(member: Enum) -> Any:
    return member.value


def _encode_kind(value: Any) -> Any:
    """Encode a dataclass where the annotation allows several."""
    return None if value is None else {KIND: type(value).__name__, **to_json(value)}


def _encoder_of_row(types_: Any) -> _Convert | None:
    encoders = [_encoder(type_) for type_ in types_]
    if not any(encoders):
        return None
    return lambda row: [
        item if encode is None or item is None else encode(item)
        for encode, item in zip(encoders, row, strict=True)
    ]


def _encoder_of_sequence(type_: Any) -> _Convert | None:
    if (encode := _encoder(type_)) is None:
        return None
    return lambda items: [None if item is None else encode(item) for item in items]


def _encoder_of_mapping(type_: Any) -> _Convert | None:
    if (encode := _encoder(type_)) is None:
        return None
    return lambda mapping: {
        key: None if item is None else encode(item) for key, item in mapping.items()
    }


def _encoder_of_fields(type_: Any) -> _Convert:
    hints = get_type_hints(type_)
    encoders = [(name, _encoder(hints[name])) for name in _stored_fields(type_)]

    def encode(record: Any) -> Any:
        content = {}
        for name, encode_field in encoders:
            value = getattr(record, name)
            is_plain = value is None or encode_field is None
            content[name] = value if is_plain or encode_field is None else encode_field(value)
        return content

    return encode


# -- decode ----------------------------------------------------------------------------------------


@cache
def _decoder(type_: Any) -> _Convert:
    members, is_optional = _members(type_)
    decode = _decoder_of_kinds(members) if len(members) > 1 else _decoder_of(members[0])
    if not is_optional:
        return decode
    return lambda value: None if value is None else decode(value)


def _decoder_of(type_: Any) -> _Convert:
    origin, args = get_origin(type_), get_args(type_)
    if type_ is Any:
        return _same
    if type_ in _SCALARS:
        return _decoder_of_scalar(type_)
    if origin is tuple and args[-1] is not Ellipsis:
        return _decoder_of_row(args, tuple)
    if origin in _SEQUENCES:
        return _decoder_of_sequence(args[0], list if origin is list else tuple)
    if origin in _MAPPINGS:
        return _decoder_of_mapping(*args)
    if issubclass(type_, Enum):
        return _decoder_of_enum(type_)
    if is_dataclass(type_):
        return _decoder_of_fields(type_)
    return _decoder_of_row(get_type_hints(type_).values(), type_._make)


def _same(value: Any) -> Any:
    return value


def _decoder_of_scalar(type_: type) -> _Convert:
    def decode(value: Any) -> Any:
        # JSON has one kind of number; True is an int for Python
        if type(value) is type_ or (type_ is float and type(value) is int):
            return value
        raise MalformedRecordError(f"expected {_NAMES[type_]}, not {_value_text(value)}")

    return decode


def _decoder_of_enum(type_: type[Enum]) -> _Convert:
    def decode(value: Any) -> Any:
        try:
            return type_(value)
        except ValueError as error:
            raise MalformedRecordError(f"{_value_text(value)} is unknown") from error

    return decode


def _decoder_of_row(types_: Any, make: _Convert) -> _Convert:
    """Return a decoder of arrays of a fixed length: state has thousands, so it is fast."""
    types_ = list(types_)
    decoders = [_decoder(type_) for type_ in types_]
    nested = [(place, decoders[place]) for place, t in enumerate(types_) if not _is_scalar(t)]
    scalars = [_json_types(type_) if _is_scalar(type_) else (list,) for type_ in types_]
    shapes = set(product(*scalars))

    def decode(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(decoders):
            raise MalformedRecordError(
                f"expected an array of {len(decoders)} values, not {_value_text(value)}"
            )
        if tuple(map(type, value)) not in shapes:
            return make([decode_item(v) for decode_item, v in zip(decoders, value, strict=True)])
        if nested:
            value = list(value)
            for place, decode_item in nested:
                value[place] = decode_item(value[place])
        return make(value)

    return decode


def _is_scalar(type_: Any) -> bool:
    members, _ = _members(type_)
    return len(members) == 1 and members[0] in _SCALARS


def _json_types(type_: Any) -> tuple[type, ...]:
    """Return the types of the JSON values of a scalar that may be optional."""
    members, is_optional = _members(type_)
    return (*members, type(None)) if is_optional else tuple(members)


def _decoder_of_sequence(type_: Any, make: _Convert) -> _Convert:
    decode_item = _decoder(type_)

    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            raise MalformedRecordError(f"expected an array, not {_value_text(value)}")
        return make(map(decode_item, value))

    return decode


def _decoder_of_mapping(key_type: Any, type_: Any) -> _Convert:
    decode_item = _decoder(type_)

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MalformedRecordError(f"expected an object, not {_value_text(value)}")
        try:
            return {key_type(key): decode_item(item) for key, item in value.items()}
        except MalformedRecordError:
            raise
        except ValueError as error:
            raise MalformedRecordError(f"expected numbers as names: {error}") from error

    return decode


def _decoder_of_fields(type_: Any) -> _Convert:
    hints = get_type_hints(type_)
    decoders = [(name, _decoder(hints[name])) for name in _stored_fields(type_)]
    names = {name for name, _ in decoders}

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MalformedRecordError(f"expected an object, not {_value_text(value)}")
        if value.keys() != names:
            for name in sorted(value.keys() - names):
                raise MalformedRecordError(f"unknown field `{name}`")
            for name, _ in decoders:
                if name not in value:
                    raise MalformedRecordError(f"field `{name}` is missing")
        values = {}
        for name, decode_field in decoders:
            try:
                values[name] = decode_field(value[name])
            except MalformedRecordError as error:
                raise error.within(name) from error
        return type_(**values)

    return decode


def _decoder_of_kinds(types_: Sequence[Any]) -> _Convert:
    decoders = {type_.__name__: _decoder_of_fields(type_) for type_ in types_}

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MalformedRecordError(f"expected an object, not {_value_text(value)}")
        content = dict(value)
        kind = content.pop(KIND, None)
        if kind not in decoders:
            raise MalformedRecordError(f"unknown {KIND} {_value_text(kind)}")
        return decoders[kind](content)

    return decode


def _stored_fields(type_: Any) -> list[str]:
    return [field.name for field in fields(type_) if field.compare]


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _members(type_: Any) -> tuple[list[Any], bool]:
    """Return the types of a union, and whether None is one of them."""
    if get_origin(type_) not in (Union, types.UnionType):
        return [type_], False
    args = get_args(type_)
    return [arg for arg in args if arg is not type(None)], type(None) in args


def _value_text(value: object, most: int = 60) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= most else f"{text[: most - 1]}…"
