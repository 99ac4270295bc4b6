"""Layout of a script: clauses on lines of their own, words of SQL in upper case."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sqlwin.statements.split import StatementText

# Words that start a clause of a query
_CLAUSES = frozenset("FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT QUALIFY".split())
# Words that are never names, whose case a result could show
_WORDS = _CLAUSES.union(
    "SELECT DISTINCT BY AND OR NOT AS ON WITH IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE JOIN "
    "INSERT INTO CREATE".split()
)
_QUERY_WORDS = ("SELECT", "WITH", "VALUES")
# First words of statements that may have a query
_STATEMENTS = ("CREATE", "EXECUTE", "EXPLAIN", "INSERT", "(")
# `IS DISTINCT FROM`, `WITHIN GROUP`, `DELETE FROM`
_BEFORE_OTHERS = ("DELETE", "DISTINCT", "WITHIN")
_INDENT = "  "


def formatted(part: StatementText) -> str:
    """Return a statement in the layout of the module. Tokens, comments and order stay.

    Line breaks of the author stay too, because they group what belongs together.

    Example:
        >>> from sqlwin.statements.split import split_script
        >>> (part,) = split_script(
        ...     "select k,  count(*) from (select * from t) where k>1 group by k"
        ... )
        >>> print(formatted(part))
        SELECT k, count(*)
        FROM (SELECT *
          FROM t)
        WHERE k>1
        GROUP BY k
    """
    pieces: list[str] = []
    # for each open parenthesis, whether it holds a query
    holds_query = [_word(part, 0) in (*_QUERY_WORDS, *_STATEMENTS)]
    at = 0
    for i, token in enumerate(part.tokens):
        gap, text = part.text[at : token.start], part.text[token.start : token.end + 1]
        word = _word(part, i)
        starts_clause = (
            i > 0
            and word in _CLAUSES
            and holds_query[-1]
            and _word(part, i - 1) not in (*_BEFORE_OTHERS, ".", "(")
        )
        if gap.strip():
            pieces.append(gap)  # a comment or a hint
        elif starts_clause:
            pieces.append("\n" + _INDENT * (len(holds_query) - 1))
        elif "\n" in gap:
            pieces.append(gap.lstrip(" ").replace("\t", _INDENT))
        else:
            pieces.append(" " if gap else "")
        is_word = word in _WORDS and _word(part, i - 1) != "."
        pieces.append(" ".join(text.upper().split()) if is_word else text)
        if token.token_type == TokenType.L_PAREN:
            holds_query.append(_word(part, i + 1) in _QUERY_WORDS)
        elif token.token_type == TokenType.R_PAREN and len(holds_query) > 1:
            holds_query.pop()
        at = token.end + 1
    return "".join(pieces) + part.text[at:]


def _word(part: StatementText, i: int) -> str:
    """Return the first word of token `i` in upper case: the tokenizer reads GROUP BY as one."""
    if not 0 <= i < len(part.tokens):
        return ""
    token = part.tokens[i]
    return part.text[token.start : token.end + 1].upper().split()[0]
