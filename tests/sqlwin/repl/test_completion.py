"""Completions at the cursor, marked ^."""

from dataclasses import dataclass, field

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from sqlwin.repl.completion.call_help import call_at
from sqlwin.repl.completion.context import Kind, context_at
from sqlwin.repl.completion.suggestions import SqlCompleter, suggestions


@dataclass
class Names:
    tables: tuple[str, ...] = ("bids", "items", "my table")
    functions: tuple[str, ...] = ("upper", "abs", "tumble", "<")
    held: dict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: {
            "bids": [("ts", "TIMESTAMP"), ("item", "STRING"), ("price", "DOUBLE")],
            "items": [("item", "STRING"), ("listed", "TIMESTAMP_LTZ"), ("weight kg", "INT")],
        }
    )

    double_quotes: str = "checked"

    def columns(self, table):
        return self.held.get(table.lower(), ())


def proposals(text, *, is_requested=True):
    before, _, after = text.partition("^")
    return [
        s.text for s in suggestions(context_at(before, after), Names(), is_requested=is_requested)
    ]


def test_keywords_of_statements_follow_the_typed_case():
    assert proposals("SEL^") == ["SELECT"]
    assert proposals("sel^") == ["select"]
    assert "CREATE TABLE" in proposals("CRE^")
    assert proposals("SELECT 1; INS^")[0] == "INSERT INTO"


def test_from_and_join_propose_tables_and_window_functions():
    assert proposals("SELECT * FROM b^") == ["bids"]
    assert proposals("SELECT * FROM ^")[:4] == ["bids", "items", "`my table`", "TUMBLE(TABLE "]
    assert proposals("SELECT * FROM bids JOIN i^") == ["items"]
    assert proposals("SELECT * FROM bids, i^") == ["items"]
    assert proposals("SELECT * FROM (SELECT * FROM bi^)") == ["bids"]
    assert proposals("SELECT * FROM TABLE(H^)") == ["HOP(TABLE "]
    assert proposals("select * from cum^") == ["cumulate(table "]


def test_names_of_a_with_clause_are_tables_too():
    assert "recent" in proposals("WITH recent AS (SELECT 1) SELECT * FROM ^")


@pytest.mark.parametrize("start", ["INSERT INTO", "DESCRIBE", "DROP TABLE", "SHOW CREATE TABLE"])
def test_these_statements_name_a_table(start):
    assert proposals(f"{start} bi^") == ["bids"]
    assert proposals(f"{start} ^")[:2] == ["bids", "items"]


def test_columns_come_from_tables_in_scope_even_if_named_later():
    assert proposals("SELECT pri^ FROM bids") == ["price"]
    assert proposals("SELECT ^ FROM bids")[:3] == ["ts", "item", "price"]
    assert proposals("SELECT * FROM items WHERE we^")[0] == "`weight kg`"
    assert proposals("SELECT pri^ FROM items") == []
    assert proposals("SELECT item FROM bids GROUP BY pri^") == ["price"]


def test_before_from_is_typed_columns_of_every_table_are_proposed():
    assert proposals("SELECT pri^") == ["price"]
    assert proposals("SELECT AVG(wei^)") == ["`weight kg`"]


def test_an_alias_limits_columns_to_its_table():
    assert proposals("SELECT b.^ FROM bids AS b JOIN items i ON 1 = 1") == ["ts", "item", "price"]
    assert proposals("SELECT i.li^ FROM bids b JOIN items i ON b.item = i.item") == ["listed"]


def test_window_columns_belong_to_queries_with_windows():
    windowed = "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    assert proposals(f"SELECT window^ {windowed}") == ["window_start", "window_end", "window_time"]
    assert proposals("SELECT window^ FROM bids") == []


def test_a_with_query_has_the_columns_of_its_select_list():
    busy = "WITH busy AS (SELECT item, COUNT(*) AS n, price + 1 AS more FROM bids GROUP BY item) "
    assert proposals(f"{busy} SELECT ^ FROM busy")[:3] == ["item", "n", "more"]
    assert proposals(f"{busy} SELECT pri^ FROM busy") == []
    assert proposals(f"{busy} SELECT b.^ FROM busy AS b") == ["item", "n", "more"]
    assert proposals(
        f"{busy} SELECT b.^ FROM busy b JOIN items i ON b.item = i.item WHERE 1 = 1"
    ) == [
        "item",
        "n",
        "more",
    ]
    # inside, the tables that it reads
    inside = "WITH busy AS (SELECT pri^ FROM bids) SELECT weight FROM items"
    assert proposals(inside) == ["price"]
    second = "WITH a AS (SELECT item AS one FROM bids), b AS (SELECT * FROM a) SELECT ^ FROM b"
    assert proposals(second)[:1] == ["one"]
    recursive = "WITH RECURSIVE r AS (SELECT * FROM r) SELECT nothing^ FROM r"
    assert proposals(recursive) == []


def test_a_subquery_has_columns_too_with_an_alias_or_without():
    assert proposals("SELECT ^ FROM (SELECT item AS thing, price FROM bids)")[:2] == [
        "thing",
        "price",
    ]
    assert proposals("SELECT s.^ FROM (SELECT *, price * 2 AS twice FROM bids) AS s") == [
        "twice",
        "ts",
        "item",
        "price",
    ]
    assert proposals("SELECT thing FROM (SELECT item AS thing FROM bids WHERE pri^)") == ["price"]
    data = "SELECT * FROM TABLE(HOP((SELECT ts AS at, item FROM bids), DESCRIPTOR(^"
    assert proposals(data)[:2] == ["at", "item"]


def test_the_bounds_of_ranges_are_a_table_with_columns():
    call = "SELECT * FROM TABLE(RANGES(TABLE bids, DESCRIPTOR(ts), "
    assert proposals(f"{call}^") == ["TABLE"]
    assert "items" in proposals(f"{call}TABLE ^")
    assert proposals(f"{call}TABLE items, ^")[-1] == "DESCRIPTOR("
    known = call_at(f"{call}BOUNDCOLS => ")
    assert known is not None and known.argument == 3
    assert known.parameters[3] == "DESCRIPTOR(starts, ends)"


def test_window_columns_reach_the_query_around_by_a_star_or_by_name():
    call = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    three = ["window_start", "window_end", "window_time"]
    assert proposals(f"SELECT window^ FROM (SELECT * FROM {call})") == three
    assert proposals(f"SELECT window^ FROM (SELECT window_end, price FROM {call}) AS w") == [
        "window_end"
    ]
    assert proposals(f"SELECT window^ FROM (SELECT price FROM {call})") == []
    assert proposals(f"SELECT w.window^ FROM {call} AS w") == three
    assert proposals(f"SELECT w.pri^ FROM {call} AS w") == ["price"]


def test_functions_follow_the_case_that_is_typed():
    assert "COUNT(" in proposals("SELECT COU^ FROM bids")
    assert proposals("SELECT upp^ FROM bids") == ["upper("]


def test_a_table_is_followed_by_clauses():
    assert proposals("SELECT * FROM bids WH^") == ["WHERE"]
    assert "GROUP BY" in proposals("SELECT * FROM bids ^")


def test_arguments_of_a_window_function_are_proposed_in_order():
    call = "SELECT * FROM TABLE(HOP("
    assert proposals(f"{call}^") == ["TABLE"]
    assert proposals(f"{call}TABLE b^") == ["bids"]
    assert proposals(f"{call}TABLE bids, ^") == ["DESCRIPTOR(ts)", "DESCRIPTOR("]
    assert proposals(f"{call}TABLE bids, DESCRIPTOR(^") == ["ts"]
    assert proposals(f"{call}TABLE items, DESCRIPTOR(^)") == ["listed"]
    assert proposals(f"{call}TABLE bids, DESCRIPTOR(ts), ^")[0] == "INTERVAL '1' MINUTE"
    assert proposals(f"{call}TABLE bids, DESCRIPTOR(ts), SIZE => ^")[0] == "INTERVAL '1' MINUTE"


def test_settings_and_their_values():
    assert proposals("SET 'table.opt^") == ["table.optimizer.agg-phase-strategy'"]
    assert proposals("SET table.opt^") == []  # an unquoted name with dots is several words
    assert "'table.local-time-zone'" in proposals("SET ^")
    assert proposals("SET 'table.optimizer.agg-phase-strategy' = ^") == [
        "'AUTO'",
        "'ONE_PHASE'",
        "'TWO_PHASE'",
    ]
    assert proposals("SET 'table.local-time-zone' = 'Europe/Berl^") == ["Europe/Berlin'"]
    assert "fold_window_into_aggregate'" in proposals(
        "SET 'sqlwin.optimizer.disabled-rules' = 'fold^"
    )


def test_connectors_and_their_options():
    create = "CREATE TABLE t (a INT) WITH ("
    assert proposals(f"{create}^") == ["'connector' = "]
    assert "filesystem'" in proposals(f"{create}'connector' = '^")
    assert "number-of-rows'" in proposals(f"{create}'connector' = 'datagen', '^")
    assert "path'" not in proposals(f"{create}'connector' = 'datagen', '^")
    assert proposals(f"{create}'connector' = 'filesystem', 'format' = 'par^") == ["parquet'"]
    csv = "'connector' = 'filesystem', 'format' = 'csv', "
    assert "csv.field-delimiter'" in proposals(f"{create}{csv}'csv.^")
    assert proposals(f"{create}{csv}'header' = '^") == ["true'", "false'"]


def test_paths_are_completed_in_quotes(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bids.parquet").touch()
    (tmp_path / "data" / ".hidden").touch()
    monkeypatch.chdir(tmp_path)
    create = "CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '"
    assert proposals(f"{create}da^") == ["data/"]
    assert proposals(f"{create}data/^") == ["data/bids.parquet"]
    assert proposals(r"\i data/b^") == ["data/bids.parquet"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM 'data/^",
        'SELECT * FROM "data/^',
        "SELECT * FROM bids JOIN 'data/^' ON true",
        "SELECT * FROM TUMBLE('data/^",
        "SELECT * FROM TABLE(HOP('data/^', ts, 1m, 5m))",
        "DESCRIBE 'data/^",
        "DESC EXTENDED 'data/^",
        "SUMMARIZE 'data/^",
        "SHOW CREATE TABLE 'data/^",
    ],
)
def test_files_are_completed_where_tables_are(text, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("bids.csv.gz", "bids.parquet"):
        (tmp_path / "data" / name).touch()
    monkeypatch.chdir(tmp_path)
    assert proposals(text) == ["data/bids.csv.gz", "data/bids.parquet"]


@pytest.mark.parametrize(
    "text",
    ["SELECT 'da^", "SELECT * FROM bids WHERE item = 'da^", "DROP TABLE 'da^", "SHOW 'da^ x"],
)
def test_files_are_not_completed_in_other_strings(text, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert proposals(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM 'a/Bids.csv.gz' ORDER BY pr^",
        "SELECT pr^ FROM 'a/Bids.csv.gz'",
        "SELECT b.pr^ FROM 'a/Bids.csv.gz' AS b",
        "SELECT MAX(pr^) FROM TUMBLE('a/Bids.csv.gz', ts, 1m)",
        "SELECT MAX(pr^) FROM TUMBLE(bids, ts, 1m)",
    ],
)
def test_columns_of_a_file_are_proposed(text):
    names = Names()
    names.held["'a/bids.csv.gz'"] = names.held["bids"]
    before, _, after = text.partition("^")
    context = context_at(before, after)
    assert [s.text for s in suggestions(context, names, is_requested=True)][:1] == ["price"]


def test_time_columns_of_a_file_are_proposed():
    names = Names()
    names.held["'a.csv'"] = names.held["bids"]
    context = context_at("SELECT * FROM TUMBLE('a.csv', ")
    proposed = [s.text for s in suggestions(context, names, is_requested=True)]
    assert proposed[:1] == ["DESCRIPTOR(ts)"]


def test_types_stand_after_the_names_of_columns():
    assert "TIMESTAMP_LTZ" in proposals("CREATE TABLE t (ts TIMEST^")
    assert "BIGINT" in proposals("CREATE TABLE t (a INT, b ^")


def test_backslash_commands_and_their_arguments():
    assert proposals(r"\ti^") == ["\\timing "]
    assert proposals(r"\d b^") == ["bids"]
    assert proposals(r"\x ^") == ["on", "off", "auto"]
    assert "jsonl" in proposals(r"\format js^")
    assert proposals(r"\? CUM^") == ["CUMULATE"]


def test_nothing_is_proposed_without_tab_where_almost_anything_fits():
    assert proposals("SELECT ^ FROM bids", is_requested=False) == []
    assert proposals("^", is_requested=False) == []
    assert proposals("SELECT * FROM ^", is_requested=False)[:1] == ["bids"]


def test_nothing_is_proposed_in_comments_and_strings():
    assert proposals("SELECT 1 -- fr^") == []
    assert proposals("SELECT 'fr^") == []


@pytest.mark.parametrize(
    ("text", "meaning", "texts"),
    [
        ('SELECT "wei^ FROM items', "identifier", ['weight kg"']),
        ('SELECT "wei^" FROM items', "identifier", ["weight kg"]),
        ('SELECT "pr^ FROM "bids"', "identifier", ['price"']),
        ('SELECT * FROM "my^', "identifier", ['my table"']),
        ('SELECT "wei^ FROM items', "checked", []),
        ('SELECT "wei^ FROM items', "string", []),
        ("SELECT `wei^ FROM items", "identifier", ["weight kg`"]),
    ],
)
def test_names_in_double_quotes_are_proposed_where_they_are_names(text, meaning, texts):
    before, _, after = text.partition("^")
    completer = SqlCompleter(Names(double_quotes=meaning))
    document = Document(before + after, len(before))
    result = completer.get_completions(document, CompleteEvent(completion_requested=True))
    assert [item.text for item in result] == texts


def test_a_complete_word_is_not_proposed():
    assert proposals("SELECT price FROM bids WHERE price^") == []


@pytest.mark.parametrize("text", ["SHOW ^", "EXPLAIN ^", "USE ^", "SELECT a.b.^", "FROM ^", ")^"])
def test_odd_beginnings_are_no_errors(text):
    assert isinstance(proposals(text), list)


def test_the_context_survives_every_cut_of_a_long_statement():
    sql = """
        CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
        WITH a AS (SELECT "x", `y z`, b.c FROM TABLE(HOP(DATA => TABLE bids, TIMECOL =>
        DESCRIPTOR(ts), SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '1' HOUR)) b) -- remark
        INSERT INTO s SELECT /* why */ 'it''s', CASE WHEN a > 1 THEN 2 END FROM a JOIN u USING (k)
    """
    for i in range(len(sql)):
        assert proposals(sql[:i] + "^" + sql[i:]) is not None


def test_the_argument_at_the_cursor_is_known():
    call = call_at("SELECT * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, ")
    assert call is not None and call.argument is not None
    assert (call.name, call.parameters[call.argument]) == ("HOP", "size")
    named = call_at("SELECT * FROM HOP(TABLE t, SIZE => ")
    assert named is not None and named.argument is not None
    assert named.parameters[named.argument] == "size"
    inner = call_at("SELECT * FROM HOP(TABLE t, DESCRIPTOR(")
    assert inner is not None and inner.argument == 1
    assert call_at("SELECT * FROM HOP(TABLE t)") is None
    assert call_at("SELECT upper(") is None


def test_kinds_follow_from_the_text_only():
    assert context_at("DROP TABLE IF EXISTS ").kind is Kind.TABLE
    assert context_at("INSERT INTO t ").kind is Kind.WORDS
    assert context_at("SELECT 1 LIMIT ").kind is Kind.NOTHING


def test_asof_join_is_proposed_and_is_no_alias():
    assert "ASOF JOIN" in proposals("SELECT * FROM bids AS^")
    assert proposals("SELECT bids.pri^ FROM bids ASOF JOIN items") == ["price"]
    assert proposals("help aso^") == ["asof join"]
