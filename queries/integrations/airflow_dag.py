"""An Airflow DAG that queries a day's window with the common SQL operator.

Needs `apache-airflow-providers-common-sql`. Set SQLWIN_SCRIPT to the file with the tables.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.sdk import DAG

import sqlwin.dbapi


class SqlwinHook(DbApiHook):
    """Opens a session per task, with the tables of a script."""

    conn_name_attr = "sqlwin_conn_id"
    default_conn_name = "sqlwin_default"
    supports_autocommit = True

    def get_conn(self) -> sqlwin.dbapi.Connection:
        """Return a connection of the DB-API."""
        return sqlwin.dbapi.connect(
            os.environ.get("SQLWIN_SCRIPT", "queries/integrations/tables.sql")
        )

    def get_autocommit(self, conn: Any) -> bool:
        """Return True: each statement takes effect at once."""
        return True

    def set_autocommit(self, conn: Any, autocommit: bool) -> None:
        """Do nothing: each statement takes effect at once."""


class SqlwinOperator(SQLExecuteQueryOperator):
    """Airflow's SQL operator on sqlwin."""

    def get_db_hook(self) -> SqlwinHook:
        """Return the hook."""
        return SqlwinHook()


with DAG(
    "flights_of_a_day",
    schedule="@daily",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
) as dag:
    SqlwinOperator(
        task_id="count",
        sql="SELECT origin, n FROM daily WHERE window_start = CAST(:day AS TIMESTAMP_NTZ) "
        "ORDER BY origin",
        parameters={"day": "{{ ds }}"},
    )
