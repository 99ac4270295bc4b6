"""Function call at the cursor, for help on its arguments."""

from __future__ import annotations

from dataclasses import dataclass

from sqlwin.repl.completion.tokens import Typed, after_last, level_from, open_brackets, typed_tokens
from sqlwin.repl.completion.words import WINDOW_FUNCTIONS

# Names and places of arguments that help shows in another form
_PLACES = (("DATA", 0), ("TIMECOL", 1), ("BOUNDS", 2), ("BOUNDCOLS", 3), ("INPUT", 0))


@dataclass(frozen=True)
class TypedCall:
    """A function call that is open at the cursor.

    Attributes:
        name: Function name in upper case.
        parameters: Parameters as shown in help.
        argument: Index of the parameter at the cursor. None: past the last one.
    """

    name: str
    parameters: tuple[str, ...]
    argument: int | None


def call_at(before: str) -> TypedCall | None:
    """Return the call of a window or aggregate function that is open at the end of the text.

    Example:
        >>> call = call_at("SELECT * FROM HOP(TABLE bids, DESCRIPTOR(ts), ")
        >>> call.name, call.parameters[call.argument]
        ('HOP', 'slide')
    """
    tokens = after_last(typed_tokens(before), ";")
    for bracket in reversed(open_brackets(tokens)):
        name = tokens[bracket - 1].word if bracket else ""
        parameters = parameters_of(name)
        if parameters:
            return TypedCall(name, parameters, argument_index(tokens, bracket, parameters))
        if name != "DESCRIPTOR":
            return None
    return None


def parameters_of(name: str) -> tuple[str, ...]:
    """Return a function's parameters as shown in help, empty for unknown functions."""
    if name in WINDOW_FUNCTIONS:
        from sqlwin.parser.signatures import SIGNATURES, shown_arguments

        optional = tuple(f"[{parameter}]" for parameter in SIGNATURES[name].optional)
        return (*shown_arguments(name), *optional)
    return ()


def argument_index(tokens: list[Typed], bracket: int, parameters: tuple[str, ...]) -> int | None:
    """Return the index of the argument at the end, by position or name; None if out of range."""
    level = level_from(tokens, bracket + 1)
    index = sum(token.word == "," for token in level)
    last = after_last(level, ",")
    if len(last) >= 2 and last[1].word == "=>":
        named = last[0].word
        for i, parameter in enumerate(parameters):
            shown = parameter.strip("[]").upper().split("(")[0]
            if shown == named or (named, i) in _PLACES:
                return i
    return index if index < len(parameters) else None
