"""File formats: Flink's format options with their Spark equivalents, and Spark's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from runtime.options.checks import (
    Option,
    bad_option,
    check_options,
    choice,
    integer,
    one_character,
    switch,
    unknown_option,
)
from runtime.spec.table import TableSpec

# Formats of files, and of messages
FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
MESSAGE_FORMATS = ("json", "csv", "raw", "avro", "avro-confluent")
# Formats whose messages are changes of a table, in JSON, which files have too, and in Avro
DEBEZIUM = "debezium-json"
CHANGES_IN_FILES = (DEBEZIUM, "canal-json", "maxwell-json", "ogg-json")
CHANGES = (*CHANGES_IN_FILES, "debezium-avro-confluent")
# Option of lake tables that are read with their changes, and the column of the changes themselves
SCAN_CHANGES, CHANGE_TYPE = "scan.changes", "_change_type"
# Formats whose files name and type their columns
SELF_DESCRIBING = ("parquet", "orc", "avro")

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")

FLINK_OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "csv": {
        "csv.field-delimiter": Option("field separator; default: comma"),
        "csv.quote-character": Option('quote character; default: "', one_character),
        "csv.disable-quote-character": switch("whether fields are never quoted"),
        "csv.escape-character": Option("escape character", one_character),
        "csv.null-literal": Option("text that stands for NULL"),
        "csv.ignore-parse-errors": switch(
            "whether fields that do not match their type become NULL"
        ),
        "csv.allow-comments": switch("whether to skip lines that start with #"),
        "csv.null-literals": Option("texts to read as NULL, separated by |"),
        "csv.decimal-separator": choice("decimal separator", ".", ","),
        "csv.thousands-separator": Option("thousands separator", one_character),
        "csv.number-symbols": Option(
            "texts to ignore around numbers, such as € and %, separated by |"
        ),
        "csv.comment": Option("prefix of comment lines, which are skipped"),
        "csv.skip-lines": Option("number of lines to skip above the header", integer(0)),
        "csv.skip-lines-below-header": Option(
            "number of lines to skip below the header, such as a row of units", integer(0)
        ),
        "csv.skip-repeated-headers": switch("whether to skip repeated header lines"),
        "csv.skip-lines-starting-with": Option(
            "beginnings of lines to skip below the header, such as Total, separated by |"
        ),
    },
    "json": {
        "json.ignore-parse-errors": switch("whether to skip malformed lines"),
        # A missing field is NULL; Spark cannot make it an error.
        "json.fail-on-missing-field": choice(
            "only false is supported: missing fields are NULL", "false"
        ),
        "json.timestamp-format.standard": choice(
            "timestamp format: 2024-01-01 10:00:00, or with a T", "SQL", "ISO-8601"
        ),
        "json.encode.ignore-null-fields": switch("whether to omit NULL fields when writing"),
        "json.null-literals": Option("texts to read as NULL, separated by |"),
        "json.records": Option(
            'field with the array of records if the file is one object, as in {"data": [...]}'
        ),
    },
    "text": {
        "text.pattern": Option(
            "pattern that splits a line into columns: common, combined, logfmt, or a "
            "regular expression with named groups",
        ),
        "text.ignore-parse-errors": switch("whether to skip lines that do not match"),
        "text.null-literals": Option("texts to read as NULL, separated by |"),
        "text.decimal-separator": choice("decimal separator", ".", ","),
        "text.thousands-separator": Option("thousands separator", one_character),
        "text.number-symbols": Option("texts to ignore around numbers, separated by |"),
        "text.comment": Option("prefix of comment lines, which are skipped"),
        "text.skip-lines-starting-with": Option("beginnings of lines to skip, separated by |"),
        "text.skip-lines": Option("number of lines to skip at the top", integer(0)),
    },
}
# Default maximum of columns in Spark's CSV reader
MAX_CSV_COLUMNS = 20_480
# Maximum characters of a JSON string and digits of a number; Spark's own limits are lower
_MAX_JSON_STRING = str(2**31 - 1)
MAX_JSON_DIGITS = 100_000
# Time format of a column in text or Parquet: `fields.<column>.format`
TIME_FORMAT = re.compile(r"fields\.(?P<column>.+)\.format", re.IGNORECASE)
# Time formats other than patterns and ISO-8601, with their unit in microseconds
TIME_UNITS = {
    "epoch-seconds": "1000000",
    "epoch-millis": "1000",
    "epoch-micros": "1",
    "epoch-nanos": "0.001",
}
# Lower-case names of text options that do not apply to messages
_OF_FILES = frozenset(
    "basepath compression ignorecorruptfiles ignoremissingfiles maxrecordsperfile modifiedafter "
    "modifiedbefore partitionoverwritemode pathglobfilter recursivefilelookup encoding charset "
    "linesep multiline header inferschema enforceschema samplingratio extension "
    "columnnameofcorruptrecord dropfieldifallnull".split()
)
# Options about reading text that have no meaning for writing
ONLY_READ = (
    "null-literals",
    "decimal-separator",
    "thousands-separator",
    "number-symbols",
    "skip-lines",
    "skip-lines-below-header",
    "skip-repeated-headers",
    "skip-lines-starting-with",
    "records",
    "pattern",
)
_EVERY_FORMAT = (
    "basePath compression ignoreCorruptFiles ignoreMissingFiles maxRecordsPerFile modifiedAfter "
    "modifiedBefore partitionOverwriteMode pathGlobFilter recursiveFileLookup"
)
_TEXTUAL = "dateFormat encoding lineSep locale timestampFormat timestampNTZFormat timeZone"
SPARK_OPTIONS: Mapping[str, tuple[str, ...]] = {
    name: tuple(f"{_EVERY_FORMAT} {options}".split())
    for name, options in {
        "parquet": "mergeSchema datetimeRebaseMode int96RebaseMode parquet.block.size "
        "parquet.page.size parquet.bloom.filter.enabled parquet.enable.dictionary",
        "orc": "mergeSchema orc.compress orc.stripe.size orc.bloom.filter.columns",
        "avro": "mergeSchema avroSchema avroSchemaUrl datetimeRebaseMode ignoreExtension mode "
        "positionalFieldMatching recordName recordNamespace",
        "text": "encoding lineSep wholetext",
        "csv": _TEXTUAL + " charToEscapeQuoteEscaping columnNameOfCorruptRecord comment delimiter "
        "emptyValue enforceSchema escape escapeQuotes extension header ignoreLeadingWhiteSpace "
        "ignoreTrailingWhiteSpace inferSchema maxCharsPerColumn maxColumns mode multiLine nanValue "
        "negativeInf nullValue positiveInf preferDate quote quoteAll samplingRatio sep charset "
        "unescapedQuoteHandling",
        "json": _TEXTUAL + " allowBackslashEscapingAnyCharacter allowComments "
        "allowNonNumericNumbers allowNumericLeadingZeros allowSingleQuotes "
        "allowUnquotedControlChars allowUnquotedFieldNames columnNameOfCorruptRecord "
        "dropFieldIfAllNull ignoreNullFields maxNestingDepth maxNumLen maxStringLen mode "
        "multiLine prefersDecimal primitivesAsString "
        "samplingRatio charset",
    }.items()
}
MAX_FILES = "max-files-per-trigger"
# Options of Spark's file stream source by their names in sqlwin
STREAM_OPTIONS = {
    MAX_FILES: "maxFilesPerTrigger",
    "max-bytes-per-trigger": "maxBytesPerTrigger",
    "latest-first": "latestFirst",
    "max-file-age": "maxFileAge",
    "file-name-only": "fileNameOnly",
    "clean-source": "cleanSource",
    "source-archive-dir": "sourceArchiveDir",
}


def format_of(options: Mapping[str, str]) -> str | None:
    """Return the format of a table, from its option or the suffix of its path, or None."""
    if "format" in options:
        return options["format"].lower()
    path = options.get("path", "").lower().rstrip("/")
    for suffix in _COMPRESSIONS:
        path = path.removesuffix(suffix)
    return next((name for suffix, name in _SUFFIXES.items() if path.endswith(suffix)), None)


def change_format(spec: TableSpec) -> str | None:
    """Return the format of a table whose messages are changes of its rows. None for others."""
    if spec.connector.lower() == "upsert-kafka":
        return None
    formats = (v.lower() for name, v in spec.options if name.lower() in ("format", "value.format"))
    return next((name for name in formats if name in CHANGES), None)


def has_change_feed(spec: TableSpec) -> bool:
    """Return whether the rows of a table are those that the changes of a lake table describe.

    A table with the column CHANGE_TYPE has the changes themselves as rows.
    """
    options = {name.lower(): value.lower() for name, value in spec.options}
    is_feed = any(column.name == CHANGE_TYPE for column in spec.columns)
    return options.get(SCAN_CHANGES) == "true" and not is_feed


def format_option_names(file_format: str) -> list[str]:
    """Return Spark's options for `file_format`, with and without the format as a prefix."""
    bare = SPARK_OPTIONS[file_format]
    return [*bare, *(f"{file_format}.{name}" for name in bare)]


def check_message_options(
    spec: TableSpec,
    options: Mapping[str, Option],
    formats: Iterable[str],
    other: Iterable[str] = (),
) -> None:
    """Check the options of a table of messages; see `check_options`.

    Args:
        spec: Table specification.
        options: Options of the connector.
        formats: Formats of its messages in lower case.
        other: Additional valid names, with any value.

    Raises:
        CatalogError: An option is wrong, of another format, or has no meaning for messages.
    """
    used = {name for name in formats if name}
    # with an unknown format, its options are not reported as well
    is_wrong = not used or not used <= {*MESSAGE_FORMATS, "text"}
    textual = [name for name in ("json", "csv") if is_wrong or name in used]
    by_format = {k: v for name in textual for k, v in FLINK_OPTIONS[name].items()}
    names = [n for name in textual for n in format_option_names(name) if "." in n]
    right = [*options, *other, *by_format, *names]
    for name, value in spec.options:
        prefix, _, bare = name.lower().partition(".")
        if name.lower() == "csv.comment" and len(value) > 1:
            raise bad_option(
                spec,
                f"option '{name}' cannot be {value!r}: in messages, comments start with "
                "one character",
                "for example 'csv.comment' = '#'",
            )
        if prefix in ("json", "csv") and prefix not in textual:
            raise unknown_option(spec, name, right)
        if prefix in textual and (bare in ONLY_READ or bare in _OF_FILES):
            raise bad_option(
                spec,
                f"option '{name}' applies to files, not to messages",
                "use a computed column, such as NULLIF(a, 'n/a')"
                if bare in ONLY_READ
                else "remove it",
            )
    check_options(spec, {**options, **by_format}, [*other, *names])


def column_formats(spec: TableSpec) -> dict[str, str]:
    """Return the declared time formats by lower-case column name."""
    return {
        match["column"].lower(): value
        for name, value in spec.options
        if (match := TIME_FORMAT.fullmatch(name)) is not None
    }


def spark_options(spec: TableSpec, file_format: str) -> dict[str, str]:
    """Return the options of Spark's reader and writer for the options of `spec`.

    By default CSV has no header and doubles its quotes (RFC 4180, as in Flink), and a record that
    does not fit the columns is an error, which Spark alone would read as NULL.
    """
    names = {name.lower(): name for name in SPARK_OPTIONS[file_format]}
    options: dict[str, str] = {}
    flink: dict[str, str] = {}
    for name, value in spec.options:
        lower_name = name.lower()
        if lower_name in FLINK_OPTIONS.get(file_format, {}):
            flink[lower_name] = value
        elif (bare := lower_name.removeprefix(f"{file_format}.")) in names:
            options[names[bare]] = value
        elif lower_name in names:
            options[names[lower_name]] = value
    defaults: dict[str, str] = {}
    if file_format in ("csv", "json") or "text.pattern" in flink:
        ignores = flink.get(f"{file_format}.ignore-parse-errors", "false").lower() == "true"
        defaults["mode"] = "PERMISSIVE" if ignores else "FAILFAST"
    if file_format == "csv":
        defaults |= {"escape": '"', **_csv_options(flink)}
    if file_format == "json":
        defaults |= {"maxNumLen": str(MAX_JSON_DIGITS), "maxStringLen": _MAX_JSON_STRING}
        encoding = options.get("encoding", options.get("charset", "")).lower()
        if encoding not in ("", "utf-8") and options.get("multiLine", "false").lower() != "true":
            # Spark requires it for other encodings
            defaults["lineSep"] = "\n"
    if file_format == "json" and "json.encode.ignore-null-fields" in flink:
        defaults["ignoreNullFields"] = flink["json.encode.ignore-null-fields"]
    if "mode" in options:
        options["mode"] = options["mode"].upper()
    return {**defaults, **options}


def _csv_options(flink: Mapping[str, str]) -> dict[str, str]:
    renamed = {
        "csv.quote-character": "quote",
        "csv.escape-character": "escape",
        "csv.null-literal": "nullValue",
    }
    options = {renamed[name]: value for name, value in flink.items() if name in renamed}
    if (delimiter := flink.get("csv.field-delimiter")) is not None:
        # SQL strings have no escapes; like Flink, read these two characters as a tab
        options["sep"] = "\t" if delimiter == "\\t" else delimiter
    if flink.get("csv.disable-quote-character", "false").lower() == "true":
        options["quote"] = ""
    if flink.get("csv.allow-comments", "false").lower() == "true":
        options["comment"] = "#"
    if len(comment := flink.get("csv.comment", "")) == 1:
        options["comment"] = comment  # longer prefixes are skipped before Spark parses a line
    return options


def timestamp_output_options(spec: TableSpec, file_format: str) -> dict[str, str]:
    """Return the format of timestamps in text that is written. Both can be read without an option.

    Spark's default would truncate them to milliseconds.
    """
    if file_format not in ("csv", "json"):
        return {}
    standards = [v for name, v in spec.options if name.lower() == "json.timestamp-format.standard"]
    between = "'T'" if standards and standards[0].lower() == "iso-8601" else " "
    pattern = f"yyyy-MM-dd{between}HH:mm:ss[.SSSSSS]"
    return {"timestampFormat": f"{pattern}XXX", "timestampNTZFormat": pattern}
