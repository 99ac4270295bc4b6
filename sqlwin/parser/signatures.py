"""Signatures of the window functions, and detection of their calls in tokens."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import CHANGELOG, CHANGELOGS, TO_CHANGELOG
from runtime.errors import nearest
from runtime.windows import FUNCTIONS
from sqlwin.parser.base import depths, is_word


@dataclass(frozen=True)
class Signature:
    """Parameters of a window function, in positional order."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameters."""
        return self.required + self.optional


SIGNATURES = {
    name: Signature(("data", "timecol", *kind.lengths), kind.optional)
    for name, kind in FUNCTIONS.items()
} | {
    "GAP_FILL": Signature(("data", "timecol", "step"), ("fill", "from", "to", "keys")),
    CHANGELOG: Signature(("input",), ("op", "op_mapping", "error_handling")),
    TO_CHANGELOG: Signature(("input",), ("op", "op_mapping")),
}
# Window functions whose data may have PARTITION BY
PARTITIONED = (
    *(name for name, kind in FUNCTIONS.items() if kind.has_partition),
    *("GAP_FILL", *CHANGELOGS),
)
# Window functions whose windows are rows of a table
BOUNDED = tuple(name for name, kind in FUNCTIONS.items() if kind.has_bounds)


def usage(kind: str) -> str:
    """Return the usage of a window function.

    For example `TUMBLE(TABLE data, DESCRIPTOR(timecol), size [, offset])`.

    Example:
        >>> usage("SESSION")
        'SESSION(TABLE data [PARTITION BY keys], DESCRIPTOR(timecol), gap)'
    """
    if kind in FUNCTIONS:
        return FUNCTIONS[kind].usage
    if kind == CHANGELOG:
        return (
            "FROM_CHANGELOG(input => TABLE changes [PARTITION BY keys] [, op => DESCRIPTOR(op)] "
            "[, op_mapping => MAP['codes', 'kind', ...]] [, error_handling => 'FAIL' or 'SKIP'])"
        )
    if kind == TO_CHANGELOG:
        return (
            "TO_CHANGELOG(input => TABLE data [PARTITION BY keys] [, op => DESCRIPTOR(op)] "
            "[, op_mapping => MAP['kinds', 'code', ...]])"
        )
    optional = "".join(f" [, {name.upper()} => ...]" for name in SIGNATURES[kind].optional)
    return f"{kind}({', '.join(shown_arguments(kind))}{optional})"


def shown_arguments(kind: str) -> tuple[str, ...]:
    """Return the required arguments of a window function as in `usage`."""
    if kind in FUNCTIONS:
        return FUNCTIONS[kind].arguments
    if kind in CHANGELOGS:
        return ("TABLE input [PARTITION BY keys]",)
    return ("TABLE data [PARTITION BY keys]", "DESCRIPTOR(timecol)", "step")


def is_window_call(tokens: list[Token], i: int) -> bool:
    """Return whether `TUMBLE(`, `TABLE(TUMBLE(` or the like starts at token `i`."""
    if is_word(tokens, i, "TABLE") and _is_type(tokens, i + 1, TokenType.L_PAREN):
        i += 2
    return (
        i < len(tokens)
        and tokens[i].token_type != TokenType.STRING
        and tokens[i].text.upper() in SIGNATURES
        and _is_type(tokens, i + 1, TokenType.L_PAREN)
    )


def misspelt_window_call(tokens: list[Token], i: int) -> Token | None:
    """Return the name in `NAME(TABLE t, DESCRIPTOR(...` or `TABLE(NAME(...` at token `i`.

    Return None for a window function. Only window functions take a DESCRIPTOR; inside TABLE( ), the
    name must resemble one of them.
    """
    is_wrapped = is_word(tokens, i, "TABLE") and _is_type(tokens, i + 1, TokenType.L_PAREN)
    if is_wrapped:
        i += 2
    is_range = _is_type(tokens, i, TokenType.RANGE)  # a function of Spark's, with other arguments
    is_name = is_range or _is_type(tokens, i, TokenType.VAR)
    if not (is_name and _is_type(tokens, i + 1, TokenType.L_PAREN)):
        return None
    name = tokens[i]
    for j, depth in depths(tokens, i + 1):
        if depth == 0:
            break
        if depth == 1 and is_word(tokens, j, "DESCRIPTOR"):
            return name if name.text.upper() not in SIGNATURES else None
    return name if is_wrapped and not is_range and nearest(name.text, SIGNATURES) else None


def holds_window_function(tokens: list[Token]) -> bool:
    """Return whether the tokens contain a window table function, well-formed or not.

    `GROUP BY TUMBLE(ts, ...)` and other functions of the same name do not count.
    """
    for i, token in enumerate(tokens):
        if is_word(tokens, i, "DESCRIPTOR") and _is_type(tokens, i + 1, TokenType.L_PAREN):
            return True
        if token.token_type in (TokenType.FROM, TokenType.JOIN) and is_window_call(tokens, i + 1):
            return True
        if is_window_call(tokens, i) and is_word(tokens, i, "TABLE"):
            return True
    return False


def _is_type(tokens: list[Token], i: int, token_type: TokenType) -> bool:
    return i < len(tokens) and tokens[i].token_type == token_type
