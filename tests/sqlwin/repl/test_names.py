"""Names of the session that completion collects in the background."""

from concurrent.futures import Future
from types import SimpleNamespace

from runtime.errors import QueryCancelled, SqlwinError
from sqlwin.repl.completion.names import SessionNames
from sqlwin.repl.session_thread import SessionState

ROWS = {
    "SHOW TABLES": [("bids",), ("items",)],
    "SET 'sqlwin.double-quotes'": [("sqlwin.double-quotes", "identifier")],
    "SHOW FUNCTIONS": [("abs",)],
    "DESCRIBE `bids`": [("ts", "timestamp"), ("price", "double"), ("# Partition", ""), ("d", "")],
    "DESCRIBE `items`": [("item", "string")],
}


class FakeThread:
    """Runs work at once. A statement in `failing` fails once."""

    state = SessionState.READY

    def __init__(self):
        self.failing = {}

    def submit(self, work, *, quiet=False):
        result = Future()
        result.set_result(work(SimpleNamespace(execute=self._execute, _has_spark=True)))
        return result

    def _execute(self, statement):
        if statement in self.failing:
            raise self.failing.pop(statement)
        return [SimpleNamespace(rows=ROWS[statement])]


def learn_all(names):
    for _ in range(6):
        names.learn_soon()


def test_tables_functions_and_columns_are_learnt_one_after_another():
    names = SessionNames(FakeThread())
    learn_all(names)
    assert (names.tables, names.functions) == (("bids", "items"), ("abs",))
    assert names.columns("bids") == (("ts", "timestamp"), ("price", "double"))
    assert names.columns("ITEMS") == (("item", "string"),)
    assert names.double_quotes == "identifier"


def test_names_cancelled_by_a_statement_are_requested_again():
    thread = FakeThread()
    for statement in ("SHOW TABLES", "DESCRIBE `bids`"):
        thread.failing[statement] = QueryCancelled("its jobs were cancelled")
        names = SessionNames(thread)
        learn_all(names)
        assert not thread.failing
        learn_all(names)
        assert names.columns("bids") == (("ts", "timestamp"), ("price", "double"))


def test_a_table_that_cannot_be_read_has_no_columns_to_propose():
    thread = FakeThread()
    thread.failing["DESCRIBE `bids`"] = SqlwinError("no such file")
    names = SessionNames(thread)
    learn_all(names)
    assert names.columns("bids") == ()
    assert names.columns("items") == (("item", "string"),)
