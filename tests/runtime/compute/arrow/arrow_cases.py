"""Rows full of boundary values, and expressions over them, for Arrow and Spark to evaluate."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal

import pyarrow as pa
import sqlglot

from planner.arrow.expressions import to_arrow_expression
from runtime.compute.arrow.types import arrow_type
from runtime.refusal import Refusal, tried
from runtime.spec.expressions import Expression
from runtime.spec.table import Column
from sqlwin.parser.parser import SqlWinQueries

TIME_ZONE = "America/Los_Angeles"

_TYPES = {
    "y": "tinyint",
    "h": "smallint",
    "i": "int",
    "j": "int",
    "b": "bigint",
    "c": "bigint",
    "y_any": "tinyint",
    "i_any": "int",
    "b_any": "bigint",
    "d": "double",
    "e": "double",
    "d_small": "double",
    "f": "float",
    "g": "float",
    "o": "boolean",
    "p": "boolean",
    "s": "string",
    "r": "string",
    "z": "binary",
    "t": "timestamp",
    "u": "timestamp",
    "n": "timestamp_ntz",
    "v": "timestamp_ntz",
    "x": "date",
    "w": "date",
    "m": "decimal(10,2)",
    "k": "decimal(15,4)",
    "l": "decimal(38,10)",
}
SCHEMA = tuple(Column(name, type_) for name, type_ in _TYPES.items())

_DAY_US = 86_400_000_000
_DOUBLES = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    1e300,
    5e-324,
    2.0**53,
    2.0**63,
]
_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 0.25, 0.1, 3.4e38, 16777216.0]
_TIMES = [
    0,
    1,
    -1,
    1_710_036_000_000_000,
    1_710_063_000_000_000,
    1_704_067_200_000_000,
    -62_135_596_800_000_000,
]
_TEXTS = [
    *("", "a", "ab", "abc", "B", "a%", "é", "\uffff", "😀", "a\nb", "1", "a_b", "a\\b", "abcab"),
    *(" a ", "\t a", "Straße", "İstanbul", "ΟΔΟΣ", "ΑΣ.", "Σ", "ŉ", "ǆ", "ﬁ", "éé a", "e\u0301"),
]
_VALUES = {
    "y": [0, 1, -1, 2, -3, 5],
    "h": [0, 1, -1, 2, -3, 100],
    "i": [0, 1, -1, 2, -3, 7, 1000],
    "j": [0, 1, -1, 2, -3, 7, 1000],
    "b": [0, 1, -1, 2, -3, 10, 100_000],
    "c": [0, 1, -1, 2, -3, 10, 100_000],
    "y_any": [-128, 127, 0, 1, -1],
    "i_any": [-(2**31), 2**31 - 1, 0, 1, -1, 2**24 + 1],
    "b_any": [-(2**63), 2**63 - 1, 0, 1, -1, 2**53 + 1, 2**31],
    "d": _DOUBLES,
    "e": _DOUBLES,
    "d_small": [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 100.5, -127.9],
    "f": _FLOATS,
    "g": _FLOATS,
    "o": [True, False],
    "p": [True, False],
    "s": _TEXTS,
    "r": _TEXTS,
    "z": [b"", b"\x00", b"\x7f", b"\xff", b"a"],
    "t": _TIMES,
    "u": _TIMES,
    "n": [*_TIMES, _DAY_US - 1, -_DAY_US, -_DAY_US - 1],
    "v": [*_TIMES, _DAY_US - 1, -_DAY_US, -_DAY_US - 1],
    "x": [0, -1, 19_792, -719_162, 2_932_896],
    "w": [0, -1, 19_792, -719_162, 2_932_896],
    "m": [
        Decimal(text) for text in ("0", "1.50", "-1.50", "0.01", "99999999.99", "-99999999.99", "1")
    ],
    "k": [
        Decimal(text) for text in ("0", "1.5", "0.0001", "99999999999.9999", "-12345.6789", "0.1")
    ],
    "l": [
        Decimal(text)
        for text in ("0", "1.5", "9999999999999999999999999999.9999999999", "-0.0000000001")
    ],
}


def table(seed: int, n_rows: int) -> pa.Table:
    """Return random rows of SCHEMA, about every seventh value NULL, with `id` as the first column."""
    source = random.Random(seed)
    columns = {"id": pa.array(range(n_rows), pa.int64())}
    for name, type_ in _TYPES.items():
        values = [
            None if source.random() < 0.15 else source.choice(_VALUES[name]) for _ in range(n_rows)
        ]
        columns[name] = pa.array(values, arrow_type(type_), from_pandas=False)
    return pa.table(columns)


def exact(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Return values that are equal only if identical: -0.0 differs from 0.0, NaN equals NaN."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type):
        column = column.cast(pa.int64() if column.type != pa.date32() else pa.int32())
    values = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return [
        "NaN" if v is not None and math.isnan(v) else v if v is None else struct.pack(">d", v)
        for v in values
    ]


def parse(sql: str) -> sqlglot.exp.Expr:
    """Parse one scalar expression."""
    return sqlglot.parse_one(f"SELECT {sql}", dialect=SqlWinQueries).expressions[0]


def translate(sql: str) -> Expression | Refusal:
    """Translate `sql` for the scan over SCHEMA, or return why that is impossible."""
    return tried(to_arrow_expression, parse(sql), SCHEMA, TIME_ZONE)


# Expressions that are valid for every row.
SUCCEEDING = [
    sql.strip()
    for line in """
    i + j; i - j; i * j; b + c; b * c; y + h; y * i; h - b; y + y; -i; -y; -b; +i; - -i; -m; -k
    b_any + 0; i_any + 1L; i_any - b; y_any + 1; y_any * h; -(i_any + 0L)
    i + 1.5e0; i * 2e0; d + e; d - e; d * e; -d; -f; f + g; f * g; f - i; f + d; d_small * 1.5; 0.1 + d; i + f
    i / 2; i / 2e0; b_any / 3; f / 2; d / 0.1; d / 1e-300; y / NULLIF(h, 0); d / NULLIF(e, 0); NULL / i; i / CAST(NULL AS INT)
    i % 3; i % -3; -7 % NULLIF(i, 0); b_any % -1; b_any % 7; y % 2Y; y_any % -1Y; MOD(i, 5); d % 3e0; d % 0.7; f % 2; d % NULLIF(e, 0)
    i DIV 2; b_any DIV 3; b_any DIV 2; -7 DIV NULLIF(i, 0); y DIV 2; i + j DIV 3 * 2; i * j DIV 3; i % 5 * 2; 2 + i % 3
    i = j; i <> j; i < b; i <= y; i > 2; i >= 1.5; b_any = 9223372036854775807; b_any < 9223372036854775807.0; b_any > -9223372036854775808.0; b_any > 1e0
    i_any = f; f = g; f < g; f >= d; f > 0.1; f = 0.1; f <=> g; b_any = d; b_any >= d; i < CAST('NaN' AS DOUBLE)
    d = e; d <> e; d < e; d <= e; d > e; d >= e; d <=> e; d = CAST('NaN' AS DOUBLE); d < CAST('NaN' AS DOUBLE); d <= CAST('Infinity' AS DOUBLE)
    d >= CAST('NaN' AS DOUBLE); CAST('NaN' AS DOUBLE) > d; CAST('NaN' AS DOUBLE) <= d; 1e0 < d; 1 >= d; d > 0.0; d <> -0.0; d >= 9007199254740993
    d IN (0, 1.5); d IN (CAST('NaN' AS DOUBLE), 1); d NOT IN (-0.0, NULL); f IN (0.25, 1); f IN (0.1); e IN (d, 1e0)
    i IN (1, 2, NULL); i NOT IN (1, 2); i IN (1, 2.5); i IN (NULL); i IN (j, 7); y IN (1, 300); b IN (1, 1e0); NULL IN (1, i); m IN (1, 1.5, 0.010)
    s = r; s <> r; s < r; s <= 'ab'; s > 'é'; s >= r; s <=> r; s IN ('a', 'b', 'é'); s NOT IN ('a', NULL); s BETWEEN 'a' AND 'b'; z = z
    s LIKE 'a%'; s NOT LIKE 'a%'; s LIKE 'ab'; s LIKE '%'; s LIKE ''; s NOT LIKE 'é%'; s LIKE '😀%'
    o = p; o < p; o <> p; o <=> p; o AND p; o OR p; NOT o; NOT (o AND p) OR o; o AND NULL; o OR NULL; NOT NULL; o IS TRUE; o IS NOT TRUE; o IS FALSE; o IS NOT FALSE; o IS UNKNOWN; o <=> NULL
    i IS NULL; i IS NOT NULL; d IS NULL; ISNULL(s); ISNOTNULL(t); NULL IS NULL; i IS DISTINCT FROM j; i IS NOT DISTINCT FROM j; EQUAL_NULL(i, b); NULL <=> NULL
    i BETWEEN 1 AND 5; i NOT BETWEEN j AND 5; d BETWEEN 0 AND 1.5; x BETWEEN '1970-01-01' AND DATE '2024-03-10'; i BETWEEN NULL AND 0
    t = u; t < u; t >= TIMESTAMP '2024-03-10 02:00:00'; t = TIMESTAMP '2024-03-10 02:30:00'; t = '2024-03-10 03:00:00'; t > TIMESTAMP '2024-01-01 00:00:00+00:00'; t <= TIMESTAMP '2024-01-01'; t < '2024-01-01T00:00:00Z'
    n = v; n <= v; n >= TIMESTAMP_NTZ '2024-03-10 02:30:00'; n > '1969-12-31 23:59:59.999999'; n < TIMESTAMP_NTZ '0001-01-01 00:00:00.000001'; n IN ('1970-01-01 00:00:00', '2024-01-01')
    x = w; x <> w; x > DATE '2024-1-1'; x IN ('1970-01-01', DATE '0001-01-01'); x <= '9999-12-31'; CAST(n AS DATE); CAST(n AS DATE) = x; CAST(x AS TIMESTAMP_NTZ); CAST(x AS TIMESTAMP_NTZ) <= n
    m = k; m < k; m >= 1; m = 1.5; m <> 0.010; k > i; m <= b; m > d; k < 0.1e0; l = 1.5; l < 0; CAST(m AS DOUBLE); CAST(k AS DOUBLE); CAST(m AS DECIMAL(20,5)); CAST(i AS DECIMAL(12,2)); CAST(i AS DECIMAL(5,1)); CAST(b AS DECIMAL(38,10))
    CAST(i AS BIGINT); CAST(0.00001 AS BIGINT); CAST(-0.99 AS INT); CAST(b AS INT); CAST(b AS DOUBLE); CAST(b_any AS DOUBLE); CAST(b_any AS FLOAT); CAST(i_any AS FLOAT); CAST(d AS FLOAT); CAST(f AS DOUBLE); CAST(i AS BOOLEAN); CAST(d AS BOOLEAN); CAST(f AS BOOLEAN)
    CAST(o AS INT); CAST(o AS TINYINT); CAST(o AS DOUBLE); CAST(o AS BOOLEAN); CAST(d_small AS INT); CAST(d_small AS BIGINT); CAST(d_small AS TINYINT); CAST(d_small AS SMALLINT); d_small::INT; -1::INT; CAST(NULL AS STRING); CAST(NULL AS DECIMAL(5,2))
    1; -2147483648; 2147483648; -9223372036854775808; 9223372036854775808; 1L; -128Y; 32767S; 1.5; -0.50; .5; 5.; 0.01BD; 1.5e2BD; 1e3; -1.5e-3; 1D; 0.1D; 16777217F; TRUE; 'it''s'; DATE '2024-02-29'; TIMESTAMP_LTZ '2024-11-03 01:30:00'; TIMESTAMP_NTZ '2024-11-03 01:30:00'
    CASE WHEN o THEN i ELSE b END; CASE WHEN o THEN i END; CASE WHEN o THEN 1 WHEN p THEN 2.5 ELSE i END; CASE i WHEN 1 THEN 'one' WHEN j THEN 'same' ELSE s END; CASE d WHEN CAST('NaN' AS DOUBLE) THEN 1 ELSE 0 END; CASE WHEN i > 0 THEN m ELSE k END; CASE WHEN o THEN t ELSE u END; CASE WHEN o THEN f ELSE i END
    IF(o, i, j); IF(i > j, i, NULL); IF(o, x, w); ROUND(d); ROUND(d, 1); ROUND(e, 2); ROUND(d_small, 3); ROUND(d * 0.05e0, 2); ROUND(i, 1); COALESCE(i, j); COALESCE(i, b, 0); COALESCE(NULL, s, 'none'); COALESCE(d, 0); COALESCE(m, 0); COALESCE(f, d, i); NVL(i, 1.5); IFNULL(s, r); NVL2(i, j, b); NULLIF(i, 1); NULLIF(i, 1.0); NULLIF(s, 'a'); NULLIF(d, 0); NULLIF(x, '1970-01-01')
    ABS(i); ABS(y); ABS(d); ABS(f); ABS(m); NEGATIVE(i); ABS(b_any / 2)
    UPPER(s); LOWER(s); UCASE(r); LCASE(r); LOWER(UPPER(s)) = s; LENGTH(s); CHAR_LENGTH(r); LENGTH(z); LENGTH(CONCAT(s, r)); REVERSE(s)
    TRIM(s); LTRIM(s); RTRIM(s); s || r; s || 'x' || r; CONCAT(s, i, r); i || s; CONCAT(s); CONCAT_WS('-', s, r, s); CONCAT_WS(r, s, 'b')
    SUBSTRING(s, 2); SUBSTRING(s, 2, 1); SUBSTRING(s, 0, 2); SUBSTRING(s, -2); SUBSTRING(s, -2, 1); SUBSTRING(s, -5, 3); SUBSTRING(s, -5, 6); SUBSTRING(s, 1, 0); SUBSTRING(s, 1, -1); SUBSTR(s, 3, 9); SUBSTRING(s FROM 2 FOR 2); SUBSTRING(s FROM 2); SUBSTRING(s, -1, 2147483647); SUBSTRING(s, 2, 2147483647)
    REPLACE(s, 'a', 'xy'); REPLACE(s, 'ab', ''); REPLACE(s, 'é', 'e'); CONTAINS(s, 'b'); CONTAINS(s, ''); STARTSWITH(s, 'a'); ENDSWITH(s, 'b'); ENDSWITH(s, '')
    s LIKE '%b'; s LIKE '%a%'; s LIKE 'a_'; s LIKE '_'; s LIKE '__%'; s LIKE 'a%b%'; s LIKE 'a\\_b'; s LIKE 'a\\%'; s LIKE '%.%'; s NOT LIKE '%é%'; s LIKE '_é%'; s LIKE '%\\\\%'; s LIKE '%[%'; s LIKE '😀'; s LIKE '_😀'
    YEAR(x); MONTH(x); DAY(x); QUARTER(x); DAYOFYEAR(x); DAYOFWEEK(x); WEEKDAY(x); WEEKOFYEAR(x); DAYOFMONTH(w); YEAR(n); MONTH(n); DAY(n); HOUR(n); MINUTE(n); SECOND(n); QUARTER(v); WEEKOFYEAR(v); DAYOFWEEK(v)
    YEAR(t); MONTH(t); DAY(t); HOUR(t); MINUTE(t); SECOND(t); DAYOFYEAR(u); WEEKDAY(u); EXTRACT(YEAR FROM t); EXTRACT(HOUR FROM n); EXTRACT(DOW FROM x); EXTRACT(DOY FROM x); EXTRACT(WEEK FROM n); EXTRACT(QUARTER FROM n); EXTRACT(MINUTE FROM t)
    CAST(t AS DATE); CAST(t AS TIMESTAMP_NTZ); CAST(t AS STRING); CAST(n AS STRING); CAST(x AS STRING); CAST(o AS STRING); CAST(i AS STRING); CAST(b_any AS STRING); CAST(m AS STRING); CAST(k AS STRING); CAST(y_any AS STRING)
    CAST(n - INTERVAL '1000' DAY AS STRING); CAST(CAST(n - INTERVAL '1000' DAY AS DATE) AS STRING); CAST(v + INTERVAL '4000000' DAY AS STRING); YEAR(v + INTERVAL '4000000' DAY); DAY(v - INTERVAL '999999' DAY); n + INTERVAL '90' MINUTE; t - INTERVAL '1' SECOND; n - INTERVAL '1 02:03:04.5' DAY TO SECOND
    DATE_FORMAT(t, 'yyyy-MM-dd HH:mm:ss.SSS'); DATE_FORMAT(t, "yyyyMMdd'T'HHmm"); DATE_FORMAT(x, 'yyyy/MM/dd'); DATE_FORMAT(x, 'MM'); DATE_FORMAT(u, 'HH:mm'); DATE_FORMAT(t, 'SSSSSS'); DATE_FORMAT(u, 'yyyy_MM')
    SHIFTRIGHT(b_any, 1); SHIFTRIGHT(b_any, 62); SHIFTRIGHT(b, 0); CAST(SHIFTRIGHT(b, 1) % 2 AS TINYINT)
    GREATEST(i, j); LEAST(i, j, 3); GREATEST(d, e); LEAST(d, e); GREATEST(s, r); LEAST(s, r, 'ab'); GREATEST(i, b, y); GREATEST(t, u); LEAST(x, w); GREATEST(m, m); LEAST(o, p); GREATEST(i, NULL); LEAST(f, g)
    FLOOR(d_small); CEIL(d_small); CEILING(d_small * 3); FLOOR(i); CEIL(y); FLOOR(b_any); CEIL(IF(e = e / 1 AND ABS(e) < 1e18, e, NULL)); FLOOR(IF(d > 1e300, d - d, d_small))
    m + 1; m - 1.25; m * 2; m / 3; m + k; m - k; m * k; k / NULLIF(m, 0); m / NULLIF(k, 0); m % 7; k % NULLIF(m, 0); i * 1.5; i / 2.5; 100.0 / NULLIF(m, 0); b + m; y * m; -(m + 1); ABS(m - 3); m + m + m; m * m * m; l / 3; l * 0.1; l * 100; l + l; l - l; l / NULLIF(l, 0); l % 3; m / 10L; m * 10L; m + CAST(5 AS BIGINT); -m / -7
    ROUND(m); ROUND(m, 1); ROUND(m, 2); ROUND(m, 5); ROUND(k, 3); ROUND(l, 2); ROUND(m * k, 2); CAST(m AS DECIMAL(10,1)); CAST(k AS DECIMAL(12,0)); CAST(m / 7 AS DECIMAL(14,6)); CAST(d_small AS DECIMAL(10,1)); CAST(d_small * 0.05e0 AS DECIMAL(12,2)); CAST(f AS DOUBLE) > 1; CAST(m AS BIGINT); CAST(k AS BIGINT); CAST(m AS INT); CAST(d_small * 1e3 AS DECIMAL(38,20))
    CAST(CAST(i AS STRING) AS INT); CAST(CAST(b_any AS STRING) AS BIGINT); CAST('  7 ' AS INT); CAST('+5' AS BIGINT); CAST(CONCAT('\t', y, ' ') AS TINYINT); NULLIF(m, 1.5); CASE WHEN o THEN m ELSE 0 END; m BETWEEN 1 AND 2.5
    CASE WHEN b <> 0 THEN 100 / b END; b <> 0 AND 100 / b > 1; b = 0 OR 100 / b > 1; CASE WHEN b_any < 0 THEN b_any + 1 ELSE b_any - 1 END; IF(j = 0, 0, i % j); COALESCE(IF(b = 0, 0, NULL), 100 DIV b)
    CASE WHEN d_small BETWEEN -100 AND 100 THEN CAST(d_small AS TINYINT) ELSE 0Y END; i IS NULL OR j = 0 OR i DIV j >= 0; CAST(NULL AS INT) + b_any * 0L; NOT (j <> 0 AND i / j > 1) AND p
    """.strip().splitlines()
    for sql in line.split(";")
]

# Each fails for some row.
FAILING = [
    "i / j",
    "d / e",
    "i % j",
    "i DIV j",
    "d % e",
    "i_any + i_any",
    "y_any - 1Y",
    "b_any * 2",
    "-b_any",
    "ABS(i_any)",
    "(b_any - 1L) DIV -1",
    "CAST(b_any AS INT)",
    "CAST(i_any AS TINYINT)",
    "CAST(d AS INT)",
    "CAST(d AS BIGINT)",
    "CAST(i_any AS DECIMAL(5,2))",
    "o OR i / j > 1",
    "CASE WHEN o THEN i / j ELSE 0 END",
    "CAST(s AS INT)",
    "FLOOR(d)",
    "CEIL(e)",
    "CAST(CAST(b_any AS STRING) AS INT)",
    "m / (m - m)",
    "m % k",
    "l * l",
    "CAST(m AS DECIMAL(5,2))",
    "CAST(m AS TINYINT)",
    "CAST(d AS DECIMAL(10,2))",
]


class RandomExpressions:
    """Generates SQL of a requested type, with small values that rarely overflow and non-zero
    divisors.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def any(self, depth: int) -> str:
        return self._one_of(self.number, self.condition, self.text)(depth)

    def number(self, depth: int) -> str:
        leaf = self._choice(
            [*"y h i j b c d_small f 1 2 -3 10L 0.5e0 -0.0e0 1e2".split(), "CAST(NULL AS INT)"]
        )
        if depth == 0:
            return leaf
        make, n = self._choice(
            [
                ("({} {} {})", 2),
                ("{} {} {}", 2),
                ("(- {})", 1),
                ("CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END", 5),
                ("COALESCE({}, {})", 2),
                ("NULLIF({}, {})", 2),
                ("ABS({})", 1),
                ("({} / NULLIF({}, 0))", 2),
                ("({} % NULLIF({}, 0))", 2),
                ("CAST({} AS DOUBLE)", 1),
                ("CAST({} AS INT)", 1),
            ]
        )
        if n == 5:
            parts = [self.condition(depth - 1), self.number(depth - 1)] * 2
            return make.format(*parts, self.number(depth - 1))
        parts = [self.number(depth - 1) for _ in range(n)]
        if make.count("{}") == 3:
            operators = ["+", "-", "*"] if make[0] == "(" else ["+", "-"]
            return make.format(parts[0], self._choice(operators), parts[1])
        return make.format(*parts)

    def condition(self, depth: int) -> str:
        leaf = self._choice(
            "o p TRUE FALSE NULL::BOOLEAN d=e d<e s<r t>u n<=v x=w m>k i<j b>=1 d>1.5 f<=>g l<1".split()
        )
        if depth == 0:
            return f"({leaf})" if len(leaf) > 1 else leaf
        kind = self._random.randrange(8)
        if kind == 0:
            return f"NOT {self.condition(depth - 1)}"
        if kind == 1:
            return f"({self.condition(depth - 1)}) IS NULL"
        if kind in (2, 3):
            connector = self._choice(["AND", "OR"])
            return f"(({self.condition(depth - 1)}) {connector} ({self.condition(depth - 1)}))"
        if kind == 4:
            low, high = self.number(0), self.number(0)
            return f"({self.number(depth - 1)}) BETWEEN {low} AND {high}"
        if kind == 5:
            members = ", ".join(self.number(0) for _ in range(3))
            return f"({self.number(depth - 1)}) IN ({members})"
        operator = self._choice("= <> < <= > >= <=>".split())
        return f"({self.number(depth - 1)} {operator} {self.number(depth - 1)})"

    def text(self, depth: int) -> str:
        if depth == 0:
            return self._choice(["s", "r", "'a'", "''"])
        condition = self.condition(depth - 1)
        return f"IF({condition}, {self.text(depth - 1)}, {self.text(depth - 1)})"

    def _choice(self, values):
        return self._random.choice(values)

    def _one_of(self, *makers):
        return self._random.choice(makers)
