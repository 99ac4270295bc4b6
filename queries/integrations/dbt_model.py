"""A dbt Python model for dbt-spark: windows over the rows of another model.

Put it into `models/` of a dbt project whose cluster has sqlwin installed. dbt-spark submits Python
models to clusters of Databricks; its method `session` runs SQL models only.
"""

from typing import Any

from sqlwin import windows as w


def model(dbt: Any, session: Any) -> Any:
    """Return the flights of each hour and airport as a Spark DataFrame."""
    dbt.config(materialized="table")
    flights = dbt.ref("flights")
    return (
        w.tumble(flights, "sched_dep", "1 hour")
        .group_by("origin")
        .agg(n="COUNT(*)", delay="AVG(dep_delay)")
    )
