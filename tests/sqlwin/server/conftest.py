"""A server over the tables of `served_session`, and a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sqlwin.server.client import ServedSession
from tests.sqlwin.server.serving import connect, served_session, serving


@pytest.fixture(scope="module")
def served() -> Iterator[ServedSession]:
    served = served_session()
    yield served
    served.session.close()


@pytest.fixture(scope="module")
def port(served: ServedSession) -> Iterator[int]:
    with serving(served) as bound:
        yield bound


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    with connect(port) as connection:
        yield connection
