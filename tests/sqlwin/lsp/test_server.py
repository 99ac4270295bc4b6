"""`sqlwin lsp` as an editor drives it, over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

pytest.importorskip("pygls", reason="the extra lsp is not installed")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from tests.goldens import ROOT
from tests.sqlwin.lsp.test_scripts import FLIGHTS, VIEW, WINDOWS

# Seconds that an answer may take on a loaded machine
LIMIT = 120


class Editor:
    """A client with one document in a folder."""

    def __init__(self, folder: Path) -> None:
        self.client = LanguageClient("editor", "1")
        self.folder = folder
        self.uri = (folder / "query.sql").as_uri()
        self.diagnostics: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.shown: list[str] = []
        self.version = 0

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self.diagnostics.put_nowait(params)

        @self.client.feature(lsp.WINDOW_SHOW_DOCUMENT)
        def show(params: lsp.ShowDocumentParams) -> lsp.ShowDocumentResult:
            self.shown.append(Path(unquote(urlparse(params.uri).path)).read_text())
            return lsp.ShowDocumentResult(True)

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        capabilities = lsp.ClientCapabilities(
            window=lsp.WindowClientCapabilities(
                show_document=lsp.ShowDocumentClientCapabilities(True)
            )
        )
        await self.start(capabilities, text)
        return await self.next_diagnostics()

    async def start(
        self, capabilities: lsp.ClientCapabilities, text: str
    ) -> lsp.ServerCapabilities:
        """Open the document in an editor with some capabilities. Return the server's."""
        await self.client.start_io(sys.executable, "-m", "sqlwin", "lsp", cwd=ROOT)
        parameters = lsp.InitializeParams(capabilities, root_uri=self.folder.as_uri())
        answer = await self.client.initialize_async(parameters)
        self.client.initialized(lsp.InitializedParams())
        item = lsp.TextDocumentItem(self.uri, "sql", self.version, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return answer.capabilities

    def replace(self, line: int, start: int, end: int, text: str) -> None:
        """Replace a part of a line, as editors do when a user types."""
        self.version += 1
        place = lsp.Range(lsp.Position(line, start), lsp.Position(line, end))
        change = lsp.TextDocumentContentChangePartial(place, text)
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def pull_diagnostics(self) -> list[lsp.Diagnostic]:
        document = lsp.TextDocumentIdentifier(self.uri)
        report = await self.client.text_document_diagnostic_async(
            lsp.DocumentDiagnosticParams(document)
        )
        assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def type(self, text: str) -> list[lsp.Diagnostic]:
        """Replace the text and return the diagnostics of the new one."""
        self.version += 1
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        return await self.next_diagnostics()

    async def next_diagnostics(self) -> list[lsp.Diagnostic]:
        while True:
            params = await asyncio.wait_for(self.diagnostics.get(), LIMIT)
            if params.version == self.version:
                return list(params.diagnostics)

    def at(self, line: int, character: int) -> dict[str, Any]:
        return {
            "text_document": lsp.TextDocumentIdentifier(self.uri),
            "position": lsp.Position(line, character),
        }

    async def close(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()


def drive(folder: Path, steps: Callable[[Editor], Awaitable[None]]) -> None:
    async def run() -> None:
        editor = Editor(folder)
        try:
            await asyncio.wait_for(steps(editor), LIMIT)
        finally:
            await editor.close()

    asyncio.run(run())


@pytest.mark.long
def test_an_editor_gets_problems_completions_help_definitions_and_plans(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "queries/data")
    # a path relative to the editor's folder
    table = FLIGHTS.replace(f"{ROOT}/queries/", "")
    assert "'data/flights.parquet'" in table
    text = table + VIEW + WINDOWS

    async def steps(editor: Editor) -> None:
        assert await editor.open(text) == []

        # typing: an error, whose range counts UTF-16 units, and its repair
        (problem,) = await editor.type(text + "SELECT '😀', nope FROM late")
        assert problem.message.startswith("column `nope` does not exist")
        assert (problem.severity, problem.source) == (lsp.DiagnosticSeverity.Error, "sqlwin")
        assert problem.range == lsp.Range(lsp.Position(6, 13), lsp.Position(6, 17))
        (problem,) = await editor.type(text + "SELECT 'a")
        assert problem.message == "unterminated string"
        assert await editor.type(text) == []

        hover = await editor.client.text_document_hover_async(lsp.HoverParams(**editor.at(4, 12)))
        assert hover is not None
        assert isinstance(hover.contents, lsp.MarkupContent)
        assert "consecutive windows" in hover.contents.value
        nothing = await editor.client.text_document_hover_async(lsp.HoverParams(**editor.at(5, 0)))
        assert nothing is None

        place = await editor.client.text_document_definition_async(
            lsp.DefinitionParams(**editor.at(4, 25))
        )
        assert place == lsp.Location(
            editor.uri, lsp.Range(lsp.Position(2, 12), lsp.Position(2, 16))
        )

        signature = await editor.client.text_document_signature_help_async(
            lsp.SignatureHelpParams(**editor.at(4, 30))
        )
        assert signature is not None
        assert signature.active_parameter == 1
        assert (
            signature.signatures[0].label
            == "TUMBLE(TABLE data, DESCRIPTOR(timecol), size, [offset])"
        )

        # completion at the end of the text, which is not valid yet
        await editor.type(text + "SELECT dep FROM la")
        items = await editor.client.text_document_completion_async(
            lsp.CompletionParams(**editor.at(6, 18))
        )
        assert isinstance(items, lsp.CompletionList)
        assert items.items[0].label == "late"
        edit = items.items[0].text_edit
        assert edit == lsp.TextEdit(lsp.Range(lsp.Position(6, 16), lsp.Position(6, 18)), "late")
        await editor.type(text + "SELECT dep FROM late")
        columns = await editor.client.text_document_completion_async(
            lsp.CompletionParams(**editor.at(6, 10))
        )
        assert isinstance(columns, lsp.CompletionList)
        assert [item.label for item in columns.items][:2] == ["dep_delay", "sched_dep"]

        await editor.type(text)
        lenses = await editor.client.text_document_code_lens_async(
            lsp.CodeLensParams(lsp.TextDocumentIdentifier(editor.uri))
        )
        assert lenses is not None
        ((lens),) = lenses
        assert (lens.range.start.line, lens.command and lens.command.title) == (3, "EXPLAIN")
        assert lens.command is not None
        plan = await editor.client.workspace_execute_command_async(
            lsp.ExecuteCommandParams(lens.command.command, lens.command.arguments)
        )
        assert "ArrowScanLocalWindowAggregate" in plan
        assert editor.shown == [plan]

    drive(tmp_path, steps)


@pytest.mark.long
def test_names_and_layout_of_a_script(tmp_path: Path) -> None:
    text = FLIGHTS + VIEW + "select *  from late;\n"

    async def steps(editor: Editor) -> None:
        assert await editor.open(text) == []
        document = lsp.TextDocumentIdentifier(editor.uri)
        locations = await editor.client.text_document_references_async(
            lsp.ReferenceParams(lsp.ReferenceContext(True), **editor.at(2, 13))
        )
        assert locations is not None
        uses = [
            lsp.Range(lsp.Position(2, 12), lsp.Position(2, 16)),
            lsp.Range(lsp.Position(3, 15), lsp.Position(3, 19)),
        ]
        assert [location.range for location in locations] == uses
        edit = await editor.client.text_document_rename_async(
            lsp.RenameParams(**editor.at(3, 16), new_name="delayed")
        )
        assert edit is not None
        assert edit.changes is not None
        changed = list(edit.changes[editor.uri])
        assert changed == [lsp.TextEdit(use, "delayed") for use in uses]
        listed = await editor.client.text_document_document_symbol_async(
            lsp.DocumentSymbolParams(document)
        )
        assert [symbol.name for symbol in listed or ()] == ["flights", "late", "select * from late"]
        edits = await editor.client.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, lsp.FormattingOptions(2, True))
        )
        assert [edit.new_text for edit in edits or ()][-1] == "SELECT *\nFROM late"

    drive(tmp_path, steps)


@pytest.mark.long
def test_an_empty_document_and_one_that_is_closed_have_answers(tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        assert await editor.open("") == []
        items = await editor.client.text_document_completion_async(
            lsp.CompletionParams(**editor.at(0, 0))
        )
        assert isinstance(items, lsp.CompletionList)
        assert "SELECT" in [item.label for item in items.items]
        document = lsp.TextDocumentIdentifier(editor.uri)
        editor.client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
        item = lsp.TextDocumentItem(editor.uri, "sql", 0, "SELECT nope")
        editor.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        (problem,) = await editor.next_diagnostics()
        assert "nope" in problem.message

    drive(tmp_path, steps)


def capabilities(*encodings: lsp.PositionEncodingKind) -> lsp.ClientCapabilities:
    """Return the capabilities of an editor that asks for problems, as VS Code and Neovim do."""
    return lsp.ClientCapabilities(
        general=lsp.GeneralClientCapabilities(position_encodings=list(encodings)),
        text_document=lsp.TextDocumentClientCapabilities(
            synchronization=lsp.TextDocumentSyncClientCapabilities(did_save=True),
            publish_diagnostics=lsp.PublishDiagnosticsClientCapabilities(version_support=True),
            diagnostic=lsp.DiagnosticClientCapabilities(dynamic_registration=True),
        ),
    )


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("encodings", "chosen", "first"),
    [
        # VS Code; the emoji is two units
        ([lsp.PositionEncodingKind.Utf16], lsp.PositionEncodingKind.Utf16, 13),
        # Neovim; it is four bytes
        (
            [lsp.PositionEncodingKind.Utf8, lsp.PositionEncodingKind.Utf16],
            lsp.PositionEncodingKind.Utf8,
            15,
        ),
    ],
)
def test_an_editor_that_asks_for_problems_edits_parts_of_lines_in_its_units(
    encodings: list[lsp.PositionEncodingKind],
    chosen: lsp.PositionEncodingKind,
    first: int,
    tmp_path: Path,
) -> None:
    text = "CREATE VIEW v AS SELECT 1 AS a;\r\nSELECT '😀', nope FROM v;\r\nSELECT a FROM v"

    async def steps(editor: Editor) -> None:
        server = await editor.start(capabilities(*encodings), text)
        assert (server.position_encoding, server.diagnostic_provider is not None) == (chosen, True)
        assert isinstance(server.text_document_sync, lsp.TextDocumentSyncOptions)
        assert server.text_document_sync.change == lsp.TextDocumentSyncKind.Incremental
        (problem,) = await editor.pull_diagnostics()
        assert problem.range == lsp.Range(lsp.Position(1, first), lsp.Position(1, first + 4))
        editor.replace(1, first, first + 4, "a")
        assert await editor.pull_diagnostics() == []
        place = await editor.client.text_document_definition_async(
            lsp.DefinitionParams(**editor.at(1, first + 7))
        )
        assert place == lsp.Location(
            editor.uri, lsp.Range(lsp.Position(0, 12), lsp.Position(0, 13))
        )
        # the answer is about the text at the time of the question
        editor.replace(1, first, first + 1, "b")
        editor.replace(2, 7, 8, "nothing")
        problems = await editor.pull_diagnostics()
        assert [problem.range.start.line for problem in problems] == [1, 2]
        # an editor shows published problems next to those that it asked for
        assert editor.diagnostics.empty()

    drive(tmp_path, steps)
