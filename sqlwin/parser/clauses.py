"""Rejection of clauses, operators and lists without content.

An empty predicate in a template (`WHERE ${filter} ORDER BY k`) must not read the whole table. Yet
sqlglot silently accepts many such gaps (`JOIN u ON`, `f(a, )`), and Spark takes a clause's keyword
for an alias if nothing follows (`FROM t WHERE` is `FROM t AS WHERE`). Therefore the tokens are
checked before either parses them.

A single walk tracks one state: either content is expected, or an operand has been read. Keywords
may also be column names (`offset` of Kafka, `on`, `from`). Where content is expected they are
names, unless the following token shows that they open a clause. After an operand they open a
clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from runtime.errors import Position, SqlSyntaxError

T = TokenType


class _Clause(NamedTuple):
    """Description of a clause's content, and an example."""

    content: str
    example: str


_CASE = _Clause("a value", "CASE WHEN v > 0 THEN 1 ELSE 0 END")
_CLAUSES: dict[TokenType, _Clause] = {
    T.SELECT: _Clause("columns", "SELECT k, v FROM t"),
    T.FROM: _Clause("a table", "FROM t"),
    T.JOIN: _Clause("a table", "JOIN u ON t.k = u.k"),
    T.ON: _Clause("a condition", "ON t.k = u.k"),
    T.USING: _Clause("columns in parentheses", "USING (k)"),
    T.WHERE: _Clause("a condition", "WHERE v > 0"),
    T.GROUP_BY: _Clause("columns", "GROUP BY k"),
    T.HAVING: _Clause("a condition", "HAVING COUNT(*) > 1"),
    T.QUALIFY: _Clause("a condition", "QUALIFY ROW_NUMBER() OVER (ORDER BY v) = 1"),
    T.ORDER_BY: _Clause("columns", "ORDER BY k"),
    T.SORT_BY: _Clause("columns", "SORT BY k"),
    T.CLUSTER_BY: _Clause("columns", "CLUSTER BY k"),
    T.DISTRIBUTE_BY: _Clause("columns", "DISTRIBUTE BY k"),
    T.PARTITION_BY: _Clause("columns", "PARTITION BY k"),
    T.LIMIT: _Clause("a number of rows", "LIMIT 10"),
    T.OFFSET: _Clause("a number of rows", "OFFSET 10"),
    T.FETCH: _Clause("a number of rows", "FETCH FIRST 10 ROWS ONLY"),
    T.TABLE_SAMPLE: _Clause("a share of the rows", "TABLESAMPLE (10 PERCENT)"),
    T.PIVOT: _Clause("its columns", "PIVOT (SUM(v) FOR k IN ('a', 'b'))"),
    T.UNPIVOT: _Clause("its columns", "UNPIVOT (v FOR k IN (a, b))"),
    T.WINDOW: _Clause("a name", "WINDOW w AS (PARTITION BY k ORDER BY v)"),
    T.OVER: _Clause("a window", "OVER (PARTITION BY k ORDER BY v)"),
    T.UNION: _Clause("a query", "SELECT ... UNION ALL SELECT ..."),
    T.INTERSECT: _Clause("a query", "SELECT ... INTERSECT SELECT ..."),
    T.EXCEPT: _Clause("a query", "SELECT ... EXCEPT SELECT ..."),
    T.VALUES: _Clause("rows", "VALUES (1, 'a'), (2, 'b')"),
    T.ALIAS: _Clause("a name", "SUM(v) AS total"),
    T.IN: _Clause("values or a query", "k IN ('a', 'b')"),
    T.WHEN: _CASE._replace(content="a condition"),
    T.THEN: _CASE,
    T.ELSE: _CASE,
}

_OPERATORS = frozenset(
    {T.AND, T.OR, T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE, T.NULLSAFE_EQ, T.PLUS, T.DASH, T.STAR,
     T.SLASH, T.MOD, T.DIV, T.DPIPE, T.AMP, T.PIPE, T.CARET, T.LIKE, T.ILIKE, T.RLIKE, T.BETWEEN,
     T.FARROW, T.IS}
)  # fmt: skip
_PREFIXES = frozenset({T.NOT, T.PLUS, T.DASH, T.TILDE})
# Never names of functions or columns
_BINARY = _OPERATORS - _PREFIXES - {T.STAR, T.LIKE, T.ILIKE, T.RLIKE, T.DIV, T.IS, T.BETWEEN}
# Words allowed between a keyword and its content
_BETWEEN = {
    T.SELECT: frozenset({T.ALL, T.DISTINCT, T.HINT}),
    T.UNION: frozenset({T.ALL, T.DISTINCT}),
    T.INTERSECT: frozenset({T.ALL, T.DISTINCT}),
    T.EXCEPT: frozenset({T.ALL, T.DISTINCT}),
    T.FETCH: frozenset({T.FIRST, T.NEXT}),
    T.IS: frozenset({T.NOT, T.DISTINCT}),
}
# Their parentheses must not be empty
_FILLED = frozenset(
    {T.WHERE, T.HAVING, T.QUALIFY, T.ON, T.USING, T.FROM, T.JOIN, T.VALUES, T.IN, T.AND, T.OR,
     T.NOT, T.EXCEPT, T.TABLE_SAMPLE}
)  # fmt: skip

_OPENING = frozenset({T.L_PAREN, T.L_BRACKET})
_CLOSING = frozenset({T.R_PAREN, T.R_BRACKET})
# Tokens that end a value
_BEHIND_VALUES = _OPERATORS - {T.NOT, T.STAR} | {T.COMMA, T.FROM, T.SEMICOLON, *_CLOSING, None}
_SET_OPERATIONS = frozenset({T.UNION, T.INTERSECT, T.EXCEPT})
_JOIN_KINDS = frozenset(
    {T.INNER, T.CROSS, T.LEFT, T.RIGHT, T.FULL, T.NATURAL, T.SEMI, T.ANTI, T.OUTER}
)
_CASE_PARTS = frozenset({T.WHEN, T.THEN, T.ELSE})
# Words that are never column names without quotes ...
_NO_NAMES = frozenset(
    {T.WHERE, T.GROUP_BY, T.HAVING, T.QUALIFY, T.ORDER_BY, T.SORT_BY, T.CLUSTER_BY, T.SELECT,
     T.DISTRIBUTE_BY, T.PARTITION_BY, T.JOIN, *_SET_OPERATIONS}
)  # fmt: skip
# ... unless followed by one of these, which only come after names
_BEHIND_NAMES = _OPERATORS - _PREFIXES - {T.STAR} | {
    T.DOT, T.COMMA, T.IN, T.ASC, T.DESC, T.DCOLON, T.L_BRACKET, T.FROM
}  # fmt: skip
# Open a clause only after FROM. Before it they are aliases (`max(v) offset`)
_BEHIND_FROM = frozenset(
    {T.LIMIT, T.OFFSET, T.FETCH, T.ON, T.USING, T.TABLE_SAMPLE, T.PIVOT, T.UNPIVOT, T.WINDOW}
)
_NESTED_TYPES = frozenset({"ARRAY", "MAP", "STRUCT", "ROW", "MULTISET"})
_QUERY_STARTS = frozenset({T.SELECT, T.FROM, T.VALUES})
# Words after FROM that require content, and would be aliases at the end: the required content
_LAST_WORDS = {
    "EMIT": _Clause("ON WINDOW CLOSE", "GROUP BY k, window_end EMIT ON WINDOW CLOSE"),
    "FOR": _Clause("its content", "PIVOT (SUM(v) FOR k IN ('a', 'b'))"),
}


@dataclass
class _Parenthesis:
    """An open parenthesis, or the whole statement.

    Attributes:
        opened_by: Keyword before the parenthesis, if any.
        wants: Index of the token that requires content. None after an operand.
        is_past_from: Whether FROM has been read.
        cases: Number of open CASE.
        types: Number of open `<` of types.
    """

    opened_by: int | None
    wants: int | None = None
    is_past_from: bool = False
    cases: int = 0
    types: int = 0


def refuse_empty_clauses(sql: str, tokens: Sequence[Token]) -> None:
    """Reject a clause, an operator or a list of a statement that lacks its content.

    Statements without a query are checked by their own grammar.

    Raises:
        SqlSyntaxError: Content is missing. Points at the word that requires it.
    """
    kinds = {token.token_type for token in tokens}
    # MATCH_RECOGNIZE patterns have operators of their own, and not every tokenizer has a type for
    # it.
    has_pattern = any(token.text.upper() == "MATCH_RECOGNIZE" for token in tokens)
    if kinds & _QUERY_STARTS and not has_pattern:
        _Walk(sql, tokens).walk()


class _Walk:
    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.levels = [_Parenthesis(None)]
        self.first_query = next(
            i for i, token in enumerate(tokens) if token.token_type in _QUERY_STARTS
        )

    def walk(self) -> None:
        """Check all tokens."""
        for i, token in enumerate(self.tokens):
            level = self.levels[-1]
            kind = token.token_type
            if kind in _OPENING:
                self.levels.append(_Parenthesis(level.wants, wants=i))
            elif kind in _CLOSING:
                self._close(i)
            elif level.wants is None:
                self._behind_operand(level, i, kind)
            else:
                self._check_missing(level, i, kind)
        self._check_content(self.levels[-1], len(self.tokens))

    def _close(self, i: int) -> None:
        level = self.levels[-1]
        self._check_content(level, i)
        if len(self.levels) == 1:
            return  # surplus closing parenthesis: the parser reports it
        opener = level.opened_by
        if level.wants is not None and opener is not None and self._type(opener) in _FILLED:
            self._fail(opener, i)
        self.levels.pop()
        self.levels[-1].wants = None

    def _check_content(self, level: _Parenthesis, i: int) -> None:
        """Reject missing content at `i`, where its nesting level ends."""
        if level.wants is not None and self._type(level.wants) not in _OPENING:
            self._fail(level.wants, i)

    def _behind_operand(self, level: _Parenthesis, i: int, kind: TokenType) -> None:
        is_type = level.types and kind in (T.GT, T.LT)
        if is_type or (kind == T.LT and i and self.tokens[i - 1].text.upper() in _NESTED_TYPES):
            level.types += 1 if kind == T.LT else -1
            level.wants = None
            return
        is_clause = kind in _CLAUSES
        if kind in _BEHIND_FROM:
            is_clause = level.is_past_from
        elif kind in _CASE_PARTS:
            is_clause = level.cases > 0
        elif kind == T.SEMICOLON:
            self.levels[-1] = _Parenthesis(None)
        elif kind == T.END and level.cases:
            level.cases -= 1
        elif kind == T.CASE:
            level.cases += 1
        if kind == T.SELECT or kind in _SET_OPERATIONS:
            level.is_past_from = False
        elif kind == T.FROM:
            level.is_past_from = True
        if is_clause or kind in _OPERATORS or kind in (T.COMMA, T.DOT):
            level.wants = i
        elif level.is_past_from and self._type(i + 1) in (None, T.SEMICOLON, *_CLOSING):
            last = _LAST_WORDS.get(self._words(i))
            if last is not None:
                hint = f"for example {last.example}; to use the word as an alias, put AS before it"
                self._refuse(i, i, f"{self._words(i)} needs {last.content}", hint)

    def _check_missing(self, level: _Parenthesis, i: int, kind: TokenType) -> None:
        assert level.wants is not None
        wants = self.tokens[level.wants].token_type
        if kind == T.STREAM and self._type(i + 1) == T.STAR:
            return  # SELECT STREAM *, which is rejected later with a hint
        if kind in _BETWEEN.get(wants, ()) or kind in _PREFIXES:
            if kind in _PREFIXES:
                level.wants = i
            return
        if kind in _QUERY_STARTS and self._may_start_query(level.wants, i):
            level.wants = i
            level.is_past_from = kind == T.FROM
            return
        if (
            # FILTER (WHERE ...), OVER (PARTITION BY ...)
            (
                wants in _OPENING
                and kind in _CLAUSES
                and kind not in _BEHIND_FROM
                and not self._is_name(i)
            )
            or (wants == T.IS and kind == T.FROM and self._type(i - 1) == T.DISTINCT)
            or (wants in (T.FROM, T.JOIN) and kind == T.VALUES)
        ):
            level.wants = i
            return
        if kind == T.COMMA and wants in _OPENING:
            self._refuse(i, i, "nothing before this comma")
        if self._is_absent(level, wants, i, kind):
            if kind == T.SELECT and self._type(i + 1) in _BEHIND_VALUES:
                self._refuse_as_name(i)
            self._fail(level.wants, i)
        if kind in _BINARY:
            self._refuse(i, i, f"nothing before {self._words(i)}")
        level.wants = None
        level.cases += kind == T.CASE

    def _is_absent(self, level: _Parenthesis, wants: TokenType, i: int, kind: TokenType) -> bool:
        """Return whether the token at `i` starts the next clause instead of content."""
        if kind in (T.COMMA, T.SEMICOLON):
            return True
        if wants == T.DOT:
            return kind == T.FROM and not self._is_name(i)
        if kind in _CASE_PARTS or kind == T.END:
            return level.cases > 0
        if kind in (T.LIMIT, T.OFFSET):
            return self._type(i + 1) in (T.NUMBER, T.ALL, T.PLACEHOLDER, T.PARAMETER)
        if kind == T.ON:
            return wants == T.JOIN and not self._is_name(i)
        if kind in _JOIN_KINDS:
            return self._type(i + 1) in (T.JOIN, *_JOIN_KINDS)
        return (kind in _NO_NAMES or kind == T.FROM) and not self._is_name(i)

    def _stands_for_name(self, i: int) -> bool:
        """Return whether the keyword at `i` is the argument of a call, or the name behind AS."""
        if self._type(i) not in (*_NO_NAMES, T.FROM) or self._type(i + 1) not in _BEHIND_VALUES:
            return False
        if self._type(i - 1) == T.ALIAS:
            return i != self.first_query
        is_call = i > 1 and self._type(i - 1) == T.L_PAREN and self._type(i - 2) == T.VAR
        return is_call and self.tokens[i - 2].text.upper() not in ("FILTER", "EXISTS")

    def _may_start_query(self, wants: int, i: int) -> bool:
        """Return whether a query may be the content that the token at `wants` requires."""
        kind = self._type(wants)
        if self._is_star_except(wants) or self._is_name(i):
            return False
        if kind == T.ALIAS and self._type(i) == T.FROM:
            # CREATE VIEW v AS FROM t SELECT k; `v AS FROM` is an error
            return i == self.first_query
        return kind in _OPENING or kind == T.ALIAS or kind in _SET_OPERATIONS

    def _is_star_except(self, i: int) -> bool:
        return i > 0 and self._type(i) == T.EXCEPT and self._type(i - 1) == T.STAR

    def _is_after_fill(self, i: int) -> bool:
        """Return whether `FILL (...)` ends before the token at `i`."""
        depth = 0
        for at in range(i - 1, 0, -1):
            depth += (self._type(at) == T.R_PAREN) - (self._type(at) == T.L_PAREN)
            if depth <= 0:
                is_wrapped = self._type(at) == T.L_PAREN
                return is_wrapped and self.tokens[at - 1].text.upper() == "FILL"
        return False

    def _words(self, i: int) -> str:
        """Return the token at `i` for a message: words in upper case, operators in quotes."""
        token = self.tokens[i]
        words = " ".join(self.sql[token.start : token.end + 1].upper().split())
        return words if words[0].isalpha() else f"`{words}`"

    def _is_name(self, i: int) -> bool:
        """Return whether the keyword at `i` is a name, judging by the following token."""
        return self._type(i) != T.SELECT and self._type(i + 1) in _BEHIND_NAMES

    def _type(self, i: int) -> TokenType | None:
        return self.tokens[i].token_type if i < len(self.tokens) else None

    def _fail(self, i: int, end: int) -> NoReturn:
        """Reject the token at `i`, because its content is missing before the token at `end`."""
        kind = self.tokens[i].token_type
        if self._stands_for_name(i):
            self._refuse_as_name(i)
        clause = _CLAUSES.get(kind)
        if self._is_star_except(i):
            clause = _Clause("columns in parentheses", "SELECT * EXCEPT (k) FROM t")
        if kind == T.FROM and self._is_after_fill(i):
            hint = "for example FILL (n = 0) FROM TIMESTAMP '2026-01-31'"
            self._refuse(i, i, "FROM of FILL needs a time", hint)
        if clause is None:
            what = "this comma" if kind == T.COMMA else self._words(i)
            self._refuse(i, i, f"nothing after {what}")
        example = f"for example {clause.example}"
        self._refuse(i, max(i, end - 1), f"{self._words(i)} needs {clause.content}", example)

    def _refuse_as_name(self, i: int) -> NoReturn:
        name = f"`{self.tokens[i].text}`"
        message = f"{self._words(i)} is a reserved word"
        self._refuse(i, i, message, f"to use it as a name, quote it: {name}")

    def _refuse(self, first: int, last: int, message: str, hint: str | None = None) -> NoReturn:
        start, end = self.tokens[first].start, self.tokens[last].end
        position = Position.at(self.sql, start, end - start + 1)
        raise SqlSyntaxError(message, position=position, sql=self.sql, hint=hint)
