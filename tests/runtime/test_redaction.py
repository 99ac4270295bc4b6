"""Secrets are masked, and nothing else."""

from __future__ import annotations

import time

import pytest

from runtime.errors import Position, SqlwinError
from runtime.redaction import DEFAULT, MASKED, Mask, remember, remember_settings


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "sfPassword",
        "properties.sasl.jaas.config",
        "properties.ssl.keystore.key",
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "fs.azure.sas.container.acct",
        "fs.s3a.secret.key",
        "fs.s3a.access.key",
        "fs.s3a.server-side-encryption.key",
        "keyPassphrase",
        "pem_private_key",
        "X-Amz-Security-Token",
        "X-Amz-Signature",
        "sig",
        "value.avro-confluent.basic-auth.user-info",
        "api-key",
        "PWD",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert DEFAULT.is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "path",
        "key.format",
        "key.fields",
        "keys",
        "design",
        "fs.s3a.aws.credentials.provider",
        "ssl.truststore.location",
        "sqlwin.redaction.regex",
        "spark.sql.shuffle.partitions",
        "csv.quote-character",
        "sink.partition-commit.policy.kind",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not DEFAULT.is_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'password' = 'a''b'", "'password' = '******'"),
        ("SET 'a.token' = 'x';", "SET 'a.token' = '******';"),
        ("SET fs.azure.account.key.x = ab==;", "SET fs.azure.account.key.x = ******;"),
        ("OPTIONS (password 'abc', user 'x')", "OPTIONS (password '******', user 'x')"),
        ("'password' = 'never closed", "'password' = '******"),
        ("option 'password' is 'x', not 'y'", "option 'password' is '******', not 'y'"),
        ('{"password": "x", "a": "b"}', '{"password": "******", "a": "b"}'),
        ("Map(keyPassphrase -> x, y -> z)", "Map(keyPassphrase -> ******, y -> z)"),
        (
            "-Djavax.net.ssl.keyStorePassword=x -Da=b",
            "-Djavax.net.ssl.keyStorePassword=****** -Da=b",
        ),
        ("s3a://AK:ab/c+d@bucket/path", "s3a://AK:******@bucket/path"),
        ("jdbc:pg://u:p@ss@h:5432/db", "jdbc:pg://u:******@h:5432/db"),
        (
            "jdbc:sqlserver://h;user=a;password=b;x=1",
            "jdbc:sqlserver://h;user=a;password=******;x=1",
        ),
        ("jdbc:oracle:thin:scott/tiger@//h:1", "jdbc:oracle:thin:scott/******@//h:1"),
        (
            "https://h/x?X-Amz-Signature=ab&y=1&sig=x",
            "https://h/x?X-Amz-Signature=******&y=1&sig=******",
        ),
        ("AccountName=a;AccountKey=ab==;E=x", "AccountName=a;AccountKey=******;E=x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ******"),
        (
            "'jaas' = 'Plain required username=\"u\" password=\"p\";', 'topic' = 'x'",
            "'jaas' = '******', 'topic' = 'x'",
        ),
        (
            "'v' = 'Plain required username=\"u\" password=\"p\";'",
            "'v' = 'Plain required username=\"u\" password=\"******\";'",
        ),
        ("-----BEGIN PRIVATE KEY-----\nab\n-----END PRIVATE KEY-----", None),
    ],
)
def test_secrets_in_texts(text: str, shown: str | None) -> None:
    expected = shown or "-----BEGIN PRIVATE KEY-----******-----END PRIVATE KEY-----"
    assert DEFAULT.text(text) == expected
    assert DEFAULT.text(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "http://host:8080/path@x",
        "abfss://container@account.dfs.core.windows.net/x",
        "unexpected token 'FROM'",
        "'scan' = 'a', 'fs.s3a.aws.credentials.provider' = 'org.x.Y'",
        "SELECT token, password FROM t GROUP BY token",
        "select=[token, password], distribution=[hash(token)]",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert DEFAULT.text(text) == text


def test_a_setting_adds_names() -> None:
    assert Mask("plant").text("'power.plant' = 'x'") == "'power.plant' = '******'"
    assert DEFAULT.text("'power.plant' = 'x'") == "'power.plant' = 'x'"


def test_known_secrets_are_masked_without_their_names() -> None:
    text = "access denied: it''s.remembered-1, its, it's.remembered-1"
    Mask("plant").remember("SET 'power.plant' = 'it''s.remembered-1'")
    assert DEFAULT.text(text) == "access denied: ******, its, ******"
    remember(["short", "password", MASKED])
    assert DEFAULT.text("short password") == "short password"
    remember_settings({"spark.x.token": "remembered-2", "spark.jdbc": "u=1;pwd=remembered-3"})
    assert DEFAULT.text("remembered-2 remembered-3 remembered-34") == "****** ****** remembered-34"


@pytest.mark.parametrize(
    ("pointed", "shown"),
    [
        ("FOO", "FOO"),
        ("'password'", "'password'"),
        ("s3cr3t", MASKED),
        ("'s3cr3t''s long'", f"'{MASKED}'"),
    ],
)
def test_carets_keep_their_position(pointed: str, shown: str) -> None:
    sql = "WITH (\n'password' = 's3cr3t''s long') FOO"
    place = Position.at(sql, sql.index(pointed), len(pointed))
    _, _, line, carets = SqlwinError("it is wrong", position=place, sql=sql).report().split("\n")
    assert line == "    'password' = '******') FOO"
    assert line[carets.index("^") : len(carets)] == shown


def test_a_multi_line_secret_is_masked_in_each_line() -> None:
    sql = "WITH ('jaas' = 'one\n two\n three', 'b' = 'c')"
    place = Position.at(sql, sql.index("'b'"), 3)
    report = SqlwinError("it is wrong", position=place, sql=sql).report()
    assert "    ******', 'b' = 'c')\n             ^^^" in report


@pytest.mark.long
def test_a_long_text_is_searched_in_a_time_that_grows_with_it() -> None:
    def took(n: int) -> float:
        start = time.process_time()
        for text in ("://a:", "jdbc:oracle:thin:x/", "password = '", "a.b-", "authorization: "):
            DEFAULT.text(text * n)
        return time.process_time() - start

    # eight times as long a text takes eight times the time; 64 times if each place is searched from
    few, many = (min(took(n) for _ in range(3)) for n in (2_000, 16_000))
    assert many < 30 * few
