"""Parse statements. `split_script` gives their tokens, `bind_parameters` their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.depth import TooDeepError
from planner.sql.nodes import TABLE_OPTIONS
from runtime.errors import Position, SqlSyntaxError, SqlwinError
from sqlwin.parser.base import STRINGS, UnknownToSparkError, UnparsableError, depths, is_word
from sqlwin.parser.clauses import refuse_empty_clauses
from sqlwin.parser.hints import after_hints
from sqlwin.parser.parser import SqlWinParser, parser_of, tokenize
from sqlwin.parser.signatures import SIGNATURES, holds_window_function
from sqlwin.parser.strings import string_value
from sqlwin.statements import nodes
from sqlwin.statements.alter import is_flink_change, read_alter_table
from sqlwin.statements.ddl import LIKE_VERBS, read_create_table, read_create_view
from sqlwin.statements.flink_statements import refuse_flink_statement
from sqlwin.statements.materialized import (
    read_alter_materialized,
    read_create_materialized,
)
from sqlwin.statements.misspelt import misspelt_keyword, refuse_misspelt_statement
from sqlwin.statements.parameters import BoundStatement, bind_parameters
from sqlwin.statements.placeholders import copy_token, parameters_in
from sqlwin.statements.queries import (
    SparkSyntaxOnly,
    read_advised,
    read_ast,
    read_files,
    read_insert,
    read_rows,
)
from sqlwin.statements.split import StatementText, statement_set_body

# Words allowed between EXPLAIN and its statement, from Flink and Spark
EXPLAIN_DETAILS = (
    "ANALYZE",
    "CHANGELOG_MODE",
    "CODEGEN",
    "COST",
    "ESTIMATED_COST",
    "EXTENDED",
    "FORMATTED",
    "JSON_EXECUTION_PLAN",
    "PLAN_ADVICE",
    "ROW",
    "VERBOSE",
)

_CLAUSES_OF_SPARK_VIEWS = ("USING", "TBLPROPERTIES", "WITH")

# Statements that Flink accepts after EXECUTE, which adds no meaning
_EXECUTED = ("INSERT", "SELECT", "WITH")


def parse_statement(text: str, offset: int = 0) -> nodes.Statement:
    """Tokenize and parse a lone statement, which may end with a semicolon.

    Its parameters have no values: they become `exp.Placeholder`. For statements of a script see
    `read_statement`.

    Args:
        text: One statement.
        offset: Start of `text` in its script.

    Raises:
        SqlwinError: It is invalid. Positions are relative to the start of `text`.
    """
    tokens = tokenize(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SqlSyntaxError("empty statement", sql=text)
    own_text = text[: after_hints(text, tokens[-1].end + 1)]
    parameters = tuple(parameters_in(own_text, tokens))
    part = StatementText(own_text, offset, 1, tuple(tokens), parameters)
    return read_statement(bind_parameters(part, None), offset)


def read_statement(bound: BoundStatement, offset: int = 0) -> nodes.Statement:
    """Parse a statement of a script.

    Statements that sqlwin need not understand become a `SparkStatement`. So do queries that cannot
    be parsed, unless they contain a window function, because Spark's error message is better.

    Args:
        bound: The statement with the values of its parameters.
        offset: Start of its text in the script.

    Raises:
        SqlwinError: It is invalid. Positions are relative to the start of `bound.text`.
    """
    # without the blank after a parameter's value
    text = bound.text[: after_hints(bound.text, bound.tokens[-1].end + 1)]
    return _read(text, bound.tokens, bound.literals, offset)


def read_copy(statement: nodes.SparkStatement) -> nodes.CreateTable | None:
    """Return CREATE TABLE name LIKE table as a statement of sqlwin, or None for another statement.

    The syntax is valid in both Flink and Spark, so the type of the table decides which applies.
    """
    tokens = list(statement.tokens)
    words = [token.text.upper() for token in tokens]
    head = [word for word in words[:4] if word not in ("OR", "REPLACE", "TEMPORARY")]
    if head[:2] != ["CREATE", "TABLE"] or "LIKE" not in words or "(" in words:
        return None
    place = words.index("LIKE")
    is_name = all(word == "." for word in words[place + 2 :: 2])
    if not is_name or len(words[place + 1 :]) % 2 == 0:
        return None
    parts = parser_of({}).run(read_create_table, tokens, statement.text)
    return nodes.CreateTable(statement.text, statement.offset, **parts, tokens=statement.tokens)


def _read(
    text: str, tokens: Sequence[Token], literals: Mapping[str, exp.Expr], offset: int
) -> nodes.Statement:
    try:
        statement = _read_spelt(text, tokens, literals, offset)
    except SqlwinError as error:
        error.sql = error.sql or text
        raise
    return replace(statement, tokens=tuple(tokens))


def _read_spelt(
    text: str, tokens: Sequence[Token], literals: Mapping[str, exp.Expr], offset: int
) -> nodes.Statement:
    """Parse a statement. If sqlwin cannot, look for a misspelt keyword before Spark tries."""

    def read(text: str, tokens: Sequence[Token]) -> nodes.Statement:
        return _StatementReader(text, tokens, literals, offset).read()

    def can_read(text: str) -> bool:
        try:
            return not isinstance(read(text, tokenize(text)), nodes.SparkStatement)
        except SqlwinError:
            return False

    try:
        statement = read(text, tokens)
    except UnparsableError as error:
        if can_read(text):  # the value of a parameter is wrong, not the text
            raise
        misspelt = misspelt_keyword(text, tokens, can_read)
        if misspelt is not None:
            raise misspelt from error
        raise
    if isinstance(statement, nodes.SparkStatement):
        misspelt = misspelt_keyword(text, tokens, can_read)
        if misspelt is not None:
            raise misspelt
    return statement


class _StatementReader:
    """Parser of one statement."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        literals: Mapping[str, exp.Expr],
        offset: int,
    ) -> None:
        self.text = text
        self.tokens = list(tokens)
        self.literals = literals
        self.offset = offset

    # -- kind of statement ----------------------------------------------------------------------

    def read(self) -> nodes.Statement:
        """Parse the statement."""
        if statement_set_body(self.tokens, 0) is not None:
            return self._statement_set()
        readers: dict[str, Callable[[], nodes.Statement | None]] = {
            "ADVISE": self._advise,
            "ALTER": self._alter,
            "CREATE": self._create,
            "DESC": self._describe,
            "DESCRIBE": self._describe,
            "DROP": self._drop,
            "EXPLAIN": self._explain,
            "INSERT": self._insert,
            "RESET": self._reset,
            "SET": self._set,
            "SHOW": self._show,
            "STOP": self._stop,
            "SUMMARIZE": self._summarize,
            "USE": self._use,
            # VALUES and TABLE cannot contain a window function.
            **dict.fromkeys(("FROM", "SELECT", "WITH", "("), self._query),
        }
        if self._is("EXECUTE") and self.tokens[1:] and self.tokens[1].text.upper() in _EXECUTED:
            # Positions stay unchanged.
            start = self.tokens.pop(0).end + 1
            self.text = " " * start + self.text[start:]
        first = self.tokens[0]
        if self._is("BEGIN"):
            # a block of Spark's with semicolons inside
            return nodes.SparkStatement(self.text, self.offset)
        self._refuse_second_statement()
        refuse_flink_statement(self.text, self.tokens)
        refuse_misspelt_statement(self.text, self.tokens)
        refuse_empty_clauses(self.text, self.tokens)
        reader = readers.get(first.text.upper()) if first.token_type not in STRINGS else None
        statement = reader() if reader is not None else None
        return statement if statement is not None else self._to_spark()

    def _to_spark(self) -> nodes.SparkStatement:
        if holds_window_function(self.tokens):
            names = (*SIGNATURES, "DESCRIPTOR")
            window = next(token for token in self.tokens if token.text.upper() in names)
            self._fail(
                f"{window.text.upper()} is not supported in this statement, which Spark runs",
                window,
                hint="window functions work in queries, INSERT, CREATE VIEW and CREATE TABLE ... "
                "WITH (...) AS",
            )
        return nodes.SparkStatement(self.text, self.offset)

    def _refuse_second_statement(self) -> None:
        """Reject a semicolon outside a statement set that is being explained."""
        kinds = [token.token_type for token in self.tokens]
        if TokenType.SEMICOLON not in kinds:
            return
        end = kinds.index(TokenType.SEMICOLON)
        if all(statement_set_body(self.tokens, i) is None for i in range(1, end)):
            self._fail("expected a single statement", self.tokens[end])

    # -- queries -------------------------------------------------------------------------------

    def _query(self) -> nodes.Statement | None:
        if self._is("WITH") and self._holds_insert():
            return self._insert()
        ast = self._readable(read_ast)
        return None if ast is None else nodes.Query(self.text, self.offset, ast)

    def _holds_insert(self) -> bool:
        """Return whether INSERT occurs outside parentheses, as in `WITH a AS (...) INSERT ...`."""
        return any(
            depth == 0 and self.tokens[i].token_type == TokenType.INSERT
            for i, depth in depths(self.tokens)
        )

    def _insert(self) -> nodes.Statement | None:
        parts = self._readable(read_insert)
        return None if parts is None else nodes.Insert(self.text, self.offset, **parts)

    def _readable(self, method: Callable[[SqlWinParser], Any]) -> Any:
        """Run `method`, or return None if it fails and Spark may be able to parse the statement."""
        try:
            return parser_of(self.literals).run(method, self.tokens, self.text)
        except SparkSyntaxOnly:
            return None
        except (UnknownToSparkError, TooDeepError):
            raise
        except SqlSyntaxError:
            if holds_window_function(self.tokens) or _reads_files(self.tokens):
                raise
            return None

    def _statement_set(self) -> nodes.StatementSet:
        body = statement_set_body(self.tokens, 0)
        assert body is not None
        if not is_word(self.tokens, len(self.tokens) - 1, "END"):
            self._fail(
                "unterminated statement set",
                self.tokens[0],
                hint="write END; after its last INSERT",
            )
        inserts: list[nodes.Insert] = []
        first = body
        for i in range(body, len(self.tokens)):
            is_last = i == len(self.tokens) - 1
            if not is_last and self.tokens[i].token_type != TokenType.SEMICOLON:
                continue
            if i > first:
                insert = self._part(first, i)
                if not isinstance(insert, nodes.Insert):
                    self._fail("a statement set can contain only INSERT", self.tokens[first])
                inserts.append(insert)
            first = i + 1
        if not inserts:
            self._fail("a statement set needs an INSERT", self.tokens[0])
        return nodes.StatementSet(self.text, self.offset, tuple(inserts))

    def _explain(self) -> nodes.Statement:
        if self._is("PLAN", "FOR", at=1):
            return nodes.Explain(self.text, self.offset, self._explained_statement(3))
        details: list[str] = []
        i = 1
        while any(self._is(detail, at=i) for detail in EXPLAIN_DETAILS):
            details.append(self.tokens[i].text.upper())
            i += 1
            if self._is(",", at=i):
                i += 1
        return nodes.Explain(self.text, self.offset, self._explained_statement(i), tuple(details))

    def _explained_statement(self, i: int) -> nodes.Statement:
        """Parse the statement from token `i` on, which EXPLAIN explains."""
        if i == len(self.tokens):
            self._fail(
                "EXPLAIN needs a statement", self.tokens[-1], hint="for example EXPLAIN SELECT ..."
            )
        inner = self._part(i, len(self.tokens))
        if isinstance(inner, nodes.Explain):
            self._fail("EXPLAIN cannot explain itself", self.tokens[i])
        return inner

    def _part(self, first: int, end: int) -> nodes.Statement:
        """Parse the nested statement of the tokens from `first` to before `end`."""
        start = self.tokens[first].start
        stop = after_hints(self.text, self.tokens[end - 1].end + 1)
        tokens = [copy_token(token, -start) for token in self.tokens[first:end]]
        try:
            return _read(self.text[start:stop], tokens, self.literals, self.offset + start)
        except SqlwinError as error:
            raise error.with_source(self.text, offset=start) from error

    # -- definitions ---------------------------------------------------------------------------

    def _create(self) -> nodes.Statement | None:
        i = 3 if self._is("OR", "REPLACE", at=1) else 1
        if self._is("TEMPORARY", at=i) or self._is("TEMP", at=i):
            i += 1
        if self._is("TABLE", at=i) and _is_flink_table(self.tokens, i):
            parts = parser_of(self.literals).run(read_create_table, self.tokens, self.text)
            return nodes.CreateTable(self.text, self.offset, **parts)
        if self._is("CREATE", "MATERIALIZED", "TABLE"):
            parts = parser_of(self.literals).run(read_create_materialized, self.tokens, self.text)
            return nodes.CreateMaterializedTable(self.text, self.offset, **parts)
        if self._is("VIEW", at=i) and not _has_clause(self.tokens, *_CLAUSES_OF_SPARK_VIEWS):
            view = self._readable(read_create_view)
            return None if view is None else nodes.CreateView(self.text, self.offset, **view)
        return None

    def _alter(self) -> nodes.Statement | None:
        if self._is("TABLE", at=1) and is_flink_change(self.tokens):
            change = parser_of(self.literals).run(read_alter_table, self.tokens, self.text)
            return nodes.AlterTable(self.text, self.offset, **change)
        if not self._is("MATERIALIZED", "TABLE", at=1):
            return None
        parts = parser_of(self.literals).run(read_alter_materialized, self.tokens, self.text)
        return nodes.AlterMaterializedTable(self.text, self.offset, **parts)

    def _drop(self) -> nodes.Statement | None:
        is_temporary = self._is("TEMPORARY", at=1)
        i = 2 if is_temporary else 1
        kinds = ("TABLE", "VIEW", "MATERIALIZED TABLE")
        kind = next((k for k in kinds if self._is(*k.split(), at=i)), None)
        if kind is None:
            if len(self.tokens) == 2:
                self._fail("DROP requires TABLE or VIEW", self.tokens[1], hint="DROP TABLE name")
            return None
        i += len(kind.split())
        if_exists = self._is("IF", "EXISTS", at=i)
        name = self._name(i + 2 if if_exists else i)
        if name is None:
            return None
        return nodes.Drop(self.text, self.offset, kind, name, if_exists, is_temporary)

    # -- SHOW and the like ---------------------------------------------------------------------

    def _show(self) -> nodes.Statement | None:
        for kind in ("MATERIALIZED TABLES", "TABLES", "VIEWS", "FUNCTIONS"):
            words = kind.split()
            if self._is(*words, at=1):
                rest = self.tokens[1 + len(words) :]
                if not rest:
                    return nodes.ShowNames(self.text, self.offset, kind)
                like = self._string(rest[is_word(rest, 0, "LIKE") :])
                if like is None:
                    return None
                return nodes.ShowNames(self.text, self.offset, kind, like)
        if len(self.tokens) == 2 and (self._is("STREAMS", at=1) or self._is("JOBS", at=1)):
            return nodes.ShowStreams(self.text, self.offset)
        if self._is("STATE", "OF", at=1):
            directory = self._string(self.tokens[3:])
            if directory is None:
                self._fail(
                    "SHOW STATE OF requires the directory of a checkpoint",
                    self.tokens[min(3, len(self.tokens) - 1)],
                    hint="for example SHOW STATE OF '/data/checkpoints/name'",
                )
            return nodes.ShowState(self.text, self.offset, directory)
        for created in ("CREATE TABLE", "CREATE VIEW", "CREATE MATERIALIZED TABLE"):
            words = created.split()
            if self._is(*words, at=1):
                name, options = self._name_or_files(1 + len(words))
                if name is None:
                    return None
                return nodes.ShowCreateTable(self.text, self.offset, name, options)
        return None

    def _stop(self) -> nodes.Statement:
        if not (self._is("STREAM", at=1) or self._is("JOB", at=1)) or len(self.tokens) < 3:
            self._fail(
                "STOP requires a stream",
                self.tokens[min(1, len(self.tokens) - 1)],
                hint="for example STOP STREAM 1 or STOP STREAM name; SHOW STREAMS lists the "
                "streams",
            )
        rest = self.tokens[2:]
        name = self._string(rest[:1])  # Flink's WITH SAVEPOINT may follow
        return nodes.StopStream(self.text, self.offset, self._value(rest) if name is None else name)

    def _describe(self) -> nodes.Statement | None:
        i = 2 if self._is("TABLE", at=1) else 1
        is_extended = self._is("EXTENDED", at=i) or self._is("FORMATTED", at=i)
        name, options = self._name_or_files(i + is_extended)
        if name is None:
            return None
        return nodes.Describe(self.text, self.offset, name, is_extended, options)

    def _advise(self) -> nodes.Statement:
        parts = parser_of(self.literals).run(read_advised, self.tokens, self.text)
        return nodes.Advise(self.text, self.offset, **parts)

    def _summarize(self) -> nodes.Statement:
        ast = parser_of(self.literals).run(read_rows, self.tokens, self.text)
        return nodes.Summarize(self.text, self.offset, ast)

    def _use(self) -> nodes.Statement:
        kind = None
        i = 1
        for word in ("CATALOG", "DATABASE", "SCHEMA", "NAMESPACE"):
            if self._is(word, at=1) and len(self.tokens) > 2:
                kind = "CATALOG" if word == "CATALOG" else "DATABASE"
                i = 2
        name = self._name(i)
        if name is None:
            self._fail(
                "USE requires the name of a catalog or a database",
                self.tokens[min(i, len(self.tokens) - 1)],
                hint="for example USE CATALOG name, USE DATABASE name or USE name",
            )
        return nodes.Use(self.text, self.offset, kind, name)

    # -- settings ------------------------------------------------------------------------------

    def _set(self) -> nodes.Statement | None:
        if len(self.tokens) == 1 or (len(self.tokens) == 3 and self._is("-", "V", at=1)):
            return nodes.Set(self.text, self.offset)
        if any(
            self._is(*spark, at=1)
            for spark in (("TIME", "ZONE"), ("VAR",), ("VARIABLE",), ("CATALOG",), ("ROLE",))
        ):
            return None
        equals = next(
            (i for i, token in enumerate(self.tokens) if token.token_type == TokenType.EQ), None
        )
        key = self._key(self.tokens[1:equals])
        if equals is None:
            return nodes.Set(self.text, self.offset, key)
        value = self.tokens[equals + 1 :]
        return nodes.Set(self.text, self.offset, key, self._value(value))

    def _reset(self) -> nodes.Statement:
        if len(self.tokens) == 1:
            return nodes.Reset(self.text, self.offset)
        return nodes.Reset(self.text, self.offset, self._key(self.tokens[1:]))

    def _key(self, tokens: Sequence[Token]) -> str:
        """Return a setting's key: quoted, or bare words joined by dots and dashes."""
        hint = "SET 'key' = 'value'"
        if not tokens:
            self._fail("a setting needs a name", self.tokens[0], hint=hint)
        if (name := self._string(tokens)) is not None:
            return name
        for before, after in pairwise(tokens):
            if before.end + 1 != after.start:
                self._fail("the name of a setting cannot contain spaces", after, hint=hint)
        if any(token.token_type in STRINGS for token in tokens):
            self._fail("quote the whole name of a setting, or none of it", tokens[0], hint=hint)
        if any(token.token_type == TokenType.IDENTIFIER for token in tokens):
            return "".join(token.text for token in tokens)
        return self._value(tokens)

    # -- tokens --------------------------------------------------------------------------------

    def _is(self, *texts: str, at: int = 0) -> bool:
        return is_word(self.tokens, at, *texts)

    def _name(self, first: int) -> nodes.Name | None:
        """Return the name formed by the tokens from `first` to the last, or None."""
        tokens = self.tokens[first:]
        if len(tokens) % 2 == 0:
            return None
        for i, token in enumerate(tokens):
            is_name = token.token_type == TokenType.IDENTIFIER or (
                token.token_type not in STRINGS and token.text[:1].isidentifier()
            )
            if token.token_type != TokenType.DOT if i % 2 else not is_name:
                return None
        return tuple(token.text for token in tokens[::2])

    def _name_or_files(self, first: int) -> tuple[nodes.Name | None, tuple[tuple[str, str], ...]]:
        """Return the name formed by the tokens from `first` on, and options.

        Files by path or call have a name too. Only files have options.
        """
        tokens = self.tokens[first:]
        is_call = len(tokens) > 2 and tokens[1].token_type == TokenType.L_PAREN
        if tokens and (tokens[0].token_type in STRINGS or is_call):
            table = parser_of(self.literals).run(read_files, tokens, self.text)
            if table is not None:
                options = table.meta.get(TABLE_OPTIONS)
                return (table.name,), () if options is None else options.pairs
        return self._name(first), ()

    def _string(self, tokens: Sequence[Token]) -> str | None:
        """Return the value of a lone string, or None."""
        if len(tokens) != 1 or tokens[0].token_type not in STRINGS:
            return None
        return string_value(self.text[tokens[0].start : tokens[0].end + 1])

    def _value(self, tokens: Sequence[Token]) -> str:
        """Return the value of a lone string, or the text of the tokens."""
        value = self._string(tokens)
        if value is not None or not tokens:
            return value or ""
        return self.text[tokens[0].start : tokens[-1].end + 1]

    def _fail(self, message: str, token: Token, hint: str | None = None) -> NoReturn:
        position = Position.at(self.text, token.start, token.end - token.start + 1)
        raise SqlSyntaxError(message, position=position, sql=self.text, hint=hint)


def _reads_files(tokens: Sequence[Token]) -> bool:
    """Return whether a query reads files by name, `FROM 'f.csv'`, which Spark cannot parse."""
    return any(
        depth == 0
        and tokens[i].token_type in (TokenType.FROM, TokenType.JOIN)
        and tokens[i + 1].token_type in STRINGS
        for i, depth in depths(tokens[:-1])
    )


def _is_flink_table(tokens: list[Token], first: int) -> bool:
    """Return whether CREATE TABLE has a clause that only Flink has.

    Such clauses are WITH (...), WATERMARK, and LIKE with options or after columns.
    """
    for i, depth in _before_query(tokens, first):
        if depth == 0 and is_word(tokens, i, "USING"):
            return False
        if depth == 0 and (
            is_word(tokens, i, "WITH") or (tokens[i - 1].text == ")" and is_word(tokens, i, "LIKE"))
        ):
            return True
        if depth == 1 and (
            is_word(tokens, i, "WATERMARK", "FOR")
            or any(is_word(tokens, i, verb) for verb in LIKE_VERBS)
        ):
            return True
    return False


def _has_clause(tokens: list[Token], *clauses: str) -> bool:
    """Return whether one of these words occurs outside parentheses before the query."""
    return any(
        depth == 0 and any(is_word(tokens, i, clause) for clause in clauses)
        for i, depth in _before_query(tokens, 0)
    )


def _before_query(tokens: list[Token], first: int) -> Iterator[tuple[int, int]]:
    """Yield the tokens from `first` to AS, each with the number of open parentheses."""
    return takewhile(lambda at: at[1] or not is_word(tokens, at[0], "AS"), depths(tokens, first))
