"""Compile the queries of `windows/` into dbt models in `models/windows/`.

dbt then needs neither sqlwin nor Spark. Compiled queries read models by `ref`, so dbt knows their
order. `schema.sql` declares the columns of models that they read.
"""

import argparse
from pathlib import Path

import sqlglot
from sqlglot import exp

import sqlwin

PROJECT = Path(__file__).parent


def model_of(query: str, dialect: str, schema: str) -> str:
    """Return a query as the text of a dbt model.

    Args:
        query: SQL with window functions.
        dialect: Engine of dbt's adapter, such as `duckdb`.
        schema: CREATE TABLE statements of the models that the query reads.
    """
    text = sqlwin.compile(query, dialect, schema=schema)
    tree = sqlglot.parse_one(text, read=dialect)
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    models = sorted({table.name for table in tree.find_all(exp.Table)} - ctes)
    imports = ", ".join(f"{name} AS (SELECT * FROM {{{{ ref('{name}') }}}})" for name in models)
    rest = f", {text.removeprefix('WITH ')}" if text.startswith("WITH ") else f" {text}"
    return f"WITH {imports}{{% raw %}}{rest}{{% endraw %}}\n"


def main() -> None:
    """Compile all queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", default="duckdb", help="duckdb, postgres or spark")
    parser.add_argument("--project", type=Path, default=PROJECT, help="directory of the project")
    options = parser.parse_args()
    schema = (options.project / "schema.sql").read_text()
    models = options.project / "models" / "windows"
    models.mkdir(exist_ok=True)
    for path in sorted((options.project / "windows").glob("*.sql")):
        (models / path.name).write_text(model_of(path.read_text(), options.to, schema))


if __name__ == "__main__":
    main()
