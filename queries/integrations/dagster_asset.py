"""A Dagster asset: flights per week and airport, as an Arrow table.

Needs `dagster`. Run it with `dagster dev -f queries/integrations/dagster_asset.py`.
"""

import dagster
import pyarrow as pa

import sqlwin.dbapi

SCRIPT = "queries/integrations/tables.sql"
QUERY = """
    SELECT origin, window_end, COUNT(*) AS n, AVG(dep_delay) AS delay
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '7' DAYS))
    GROUP BY origin, window_start, window_end
"""


@dagster.asset
def weekly_flights() -> dagster.MaterializeResult[pa.Table]:
    """Return the flights of each week and airport."""
    with sqlwin.dbapi.connect(SCRIPT) as connection:
        table = connection.execute(QUERY).fetch_arrow_table()
    return dagster.MaterializeResult(value=table, metadata={"rows": table.num_rows})


definitions = dagster.Definitions(assets=[weekly_flights])
