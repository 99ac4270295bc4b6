"""Run the tests in which real programs use sqlwin: `python -m tests.clients [NAME ...]`.

The tests start the server, PostgreSQL and the Kafka broker that they need. Programs that the
machine lacks are listed first: their tests are skipped.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import pytest

from tests.goldens import ROOT

_SERVER = "tests/sqlwin/server"
_LAKE = "tests/end_to_end/lake"
# Tests of each program
TESTS = {
    "psql": [_SERVER, "tests/sqlwin/cli/test_serve.py", "tests/docs/test_integrations.py"],
    "psycopg": [_SERVER],
    "pgjdbc": [f"{_SERVER}/test_catalogs.py", f"{_SERVER}/test_writes.py"],
    "sqlalchemy": ["tests/sqlwin/dbapi", f"{_SERVER}/postgres", f"{_SERVER}/test_catalogs.py"],
    "pandas": ["tests/sqlwin/dbapi"],
    "ibis": ["tests/sqlwin/test_ibis.py", "tests/docs/test_integrations.py"],
    "kafka": [
        "tests/runtime/connectors/kafka",
        "tests/end_to_end/sources/test_kafka.py",
        "tests/end_to_end/sources/test_kafka_outages.py",
        "tests/end_to_end/sinks/test_upsert_kafka.py",
    ],
    "postgres": ["tests/runtime/connectors/postgres", "tests/end_to_end/sinks/test_postgres.py"],
    "deltalake": ["tests/runtime/connectors/lake/delta", f"{_LAKE}/test_delta.py"],
    "pyiceberg": ["tests/runtime/connectors/lake/iceberg", f"{_LAKE}/test_iceberg.py"],
    "dbt": ["tests/queries/test_dbt.py"],
    "editors": ["tests/sqlwin/lsp", "tests/sqlwin/cli/test_lsp.py"],
}
_PROGRAMS = ("psql", "initdb", "java", "dbt")


def main() -> int:
    """Run the tests of some programs, or of all, and return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(TESTS)}")
    names = parser.parse_args().names or list(TESTS)
    for name in names:
        if name not in TESTS:
            parser.error(f"unknown program {name}: the programs are {', '.join(TESTS)}")
    missing = [program for program in _PROGRAMS if not _is_installed(program)]
    if missing:
        print(f"not installed, tests that need it are skipped: {', '.join(missing)}")
    paths = dict.fromkeys(path for name in names for path in TESTS[name])
    return int(pytest.main(["-q", "-n", "2", "--long", "-rs", *(str(ROOT / p) for p in paths)]))


def _is_installed(program: str) -> bool:
    # Debian keeps the programs of the server off the PATH
    places = Path("/usr/lib/postgresql").glob(f"*/bin/{program}")
    return shutil.which(program) is not None or any(places)


if __name__ == "__main__":
    sys.exit(main())
