"""Test files of sdp-test: the query of a model, tables without schemas, partial columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlwin.testing.cases import read_cases
from sqlwin.testing.documents import CaseFileError
from tests.sqlwin.testing.test_command import run

MODEL = """-- products by kind
CREATE OR REFRESH MATERIALIZED VIEW ${silver}.stg_products
CLUSTER BY AUTO
COMMENT 'the kinds'
AS
SELECT CAST(p.sku AS STRING) AS product_id, UPPER(p.name) AS name, p.price / 100 AS price
FROM ${catalog}.${bronze}.raw_products AS p
WHERE p.is_sold;
"""
TESTS = """
log_level: INFO
tests:
  - name: prices in euros
    model: stg_products.sql
    log_level: DEBUG
    given:
      - table: ${bronze}.raw_products
        rows:
          - {sku: 1, name: latte, price: 350, is_sold: true}
          - {sku: 2, name: tea, price: 200, is_sold: false}
    expect:
      rows:
        - {price: 3.5, product_id: '1'}
"""


def file(directory: Path, tests: str = TESTS, model: str = MODEL) -> Path:
    (directory / "stg_products.sql").write_text(model)
    path = directory / "stg_products.unit_tests.yml"
    path.write_text(tests)
    return path


def test_a_test_of_a_model_runs_like_a_case(tmp_path: Path) -> None:
    code, out, err = run(str(file(tmp_path)), "--histories", "2")
    assert code == 0 and out.startswith("1 passed"), out + err


def test_only_the_named_columns_are_compared(tmp_path: Path) -> None:
    code, out, _ = run(str(file(tmp_path, TESTS.replace("price: 3.5", "price: 4.5"))))
    assert code == 1 and "[1, 3.5]" in out.replace("'", "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("${catalog}.${bronze}.raw_products", "STREAM(${bronze}.raw_products)"),
        ("${catalog}.${bronze}.raw_products", "STREAM ${bronze}.raw_products"),
        ("${catalog}.${bronze}.raw_products", "bronze.raw_products"),
        (MODEL.partition("SELECT")[0], ""),
        ("MATERIALIZED VIEW", "STREAMING TABLE"),
    ],
)
def test_forms_of_a_model(tmp_path: Path, before: str, after: str) -> None:
    model = MODEL.replace(before, after)
    tests = TESTS.replace("${bronze}", "bronze") if "FROM bronze" in model else TESTS
    code, out, _ = run(str(file(tmp_path, tests, model)), "--histories", "1")
    assert code == 0, out


@pytest.mark.parametrize(
    ("tests", "model", "message"),
    [
        (
            TESTS.replace("    log_level", "    callable: f\n    log_level"),
            MODEL,
            "6: the key 'callable' of sdp-test is not supported",
        ),
        (
            TESTS.replace("products.sql", "products.py"),
            MODEL,
            "5: the model stg_products.py is not a SQL file",
        ),
        (TESTS.replace("stg_products.sql", "none.sql"), MODEL, "none.sql: No such file"),
        (TESTS, MODEL.replace("/ 100", "/ ${cents}"), "5: the variable ${cents} in"),
        (TESTS.replace("- table:", "- name:"), MODEL, "8: the key 'name' of sdp-test"),
        (
            TESTS.replace("    expect:", "      - table: silver.raw_products\n    expect:"),
            MODEL,
            "12: two tables have the name `raw_products`",
        ),
    ],
)
def test_unsupported_parts_are_named(tmp_path: Path, tests: str, model: str, message: str) -> None:
    path = file(tmp_path, tests, model)
    with pytest.raises(CaseFileError) as raised:
        read_cases(path)
    assert message in raised.value.message
