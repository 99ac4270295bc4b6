"""The language server on pygls."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

import sqlwin
from sqlwin.lsp.answers import call_help_at, definition_at, hover_at
from sqlwin.lsp.layout import formatted
from sqlwin.lsp.names import references_at, rename_at, symbols
from sqlwin.lsp.scripts import CheckedScript, ScriptNames, check_script
from sqlwin.repl.completion.context import context_at
from sqlwin.repl.completion.suggestions import suggestions
from sqlwin.session import Session

# Seconds without a change after which a document is checked
_PAUSE_SECONDS = 0.2
EXPLAIN_COMMAND = "sqlwin.explain"


@dataclass(frozen=True)
class _Checked:
    """The last check of a document."""

    script: CheckedScript
    names: ScriptNames
    version: int | None


class SqlServer:
    """Checks documents when they change, and answers from the last check.

    Args:
        connect: Opens a session, which never starts Spark.
    """

    def __init__(self, connect: Callable[[], Session] = sqlwin.connect) -> None:
        self._connect = connect
        self._checked: dict[str, _Checked] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="sqlwin-lsp-")
        self.server = LanguageServer("sqlwin", sqlwin.__version__)
        for name, handler in (
            (lsp.INITIALIZED, self._enter_workspace),
            (lsp.TEXT_DOCUMENT_DID_OPEN, self._changed),
            (lsp.TEXT_DOCUMENT_DID_CHANGE, self._changed),
            (lsp.TEXT_DOCUMENT_DID_SAVE, self._changed),
            (lsp.TEXT_DOCUMENT_DID_CLOSE, self._closed),
            (lsp.TEXT_DOCUMENT_HOVER, self._hover),
            (lsp.TEXT_DOCUMENT_DEFINITION, self._definition),
            (lsp.TEXT_DOCUMENT_REFERENCES, self._references),
            (lsp.TEXT_DOCUMENT_RENAME, self._rename),
            (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self._symbols),
            (lsp.TEXT_DOCUMENT_FORMATTING, self._format),
            (lsp.TEXT_DOCUMENT_CODE_LENS, self._code_lenses),
        ):
            self.server.feature(name)(_function_of(handler))
        pull = lsp.DiagnosticOptions(
            inter_file_dependencies=False, workspace_diagnostics=False, identifier="sqlwin"
        )
        self.server.feature(lsp.TEXT_DOCUMENT_DIAGNOSTIC, pull)(_function_of(self._diagnose))
        completion = lsp.CompletionOptions(trigger_characters=[".", "'", "(", " "])
        complete = _function_of(self._complete)
        self.server.feature(lsp.TEXT_DOCUMENT_COMPLETION, completion)(complete)
        signatures = lsp.SignatureHelpOptions(trigger_characters=["(", ","])
        signature = _function_of(self._signature)
        self.server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, signatures)(signature)

        async def explain(uri: str, number: int) -> str:
            return await self._explain(uri, number)

        self.server.command(EXPLAIN_COMMAND)(explain)

    def _enter_workspace(self, params: lsp.InitializedParams) -> None:
        """Make paths in SQL relative to the editor's folder."""
        root = self.server.workspace.root_path
        if root is not None and os.path.isdir(root):
            os.chdir(root)

    # -- checks ------------------------------------------------------------------------------------

    async def _changed(
        self,
        params: lsp.DidOpenTextDocumentParams
        | lsp.DidChangeTextDocumentParams
        | lsp.DidSaveTextDocumentParams,
    ) -> None:
        uri = params.text_document.uri
        version = self._document(uri).version
        await asyncio.sleep(_PAUSE_SECONDS)
        if uri in self.server.workspace.text_documents and self._document(uri).version == version:
            await self._check(uri)

    async def _check(self, uri: str) -> _Checked:
        """Check a document in another thread, and publish its problems if it has not changed."""
        document = self._document(uri)
        text, version = document.source, document.version
        checked = await asyncio.get_running_loop().run_in_executor(
            None, self._checked_text, text, version
        )
        if self._document(uri).version == version:
            old = self._checked.get(uri)
            self._checked[uri] = checked
            if old is not None:
                old.script.session.close()
            if not self._pulls_diagnostics:
                self.server.text_document_publish_diagnostics(
                    lsp.PublishDiagnosticsParams(
                        uri=uri,
                        version=version,
                        diagnostics=_diagnostics(document, checked.script),
                    )
                )
        return checked

    @property
    def _pulls_diagnostics(self) -> bool:
        """Whether the editor asks for problems. It would show published ones a second time."""
        capabilities = self.server.client_capabilities.text_document
        return capabilities is not None and capabilities.diagnostic is not None

    async def _diagnose(
        self, params: lsp.DocumentDiagnosticParams
    ) -> lsp.RelatedFullDocumentDiagnosticReport:
        """Return the problems of the current text, for editors that ask for them."""
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        return lsp.RelatedFullDocumentDiagnosticReport(_diagnostics(document, checked.script))

    def _checked_text(self, text: str, version: int | None) -> _Checked:
        script = check_script(text, self._connect)
        return _Checked(script, ScriptNames(script.session), version)

    def _closed(self, params: lsp.DidCloseTextDocumentParams) -> None:
        checked = self._checked.pop(params.text_document.uri, None)
        if checked is not None:
            checked.script.session.close()

    async def _last_check(self, uri: str) -> _Checked:
        """Return the last check, which is of an older text if the document has just changed."""
        return self._checked.get(uri) or await self._check(uri)

    async def _current_check(self, uri: str) -> _Checked:
        """Return a check of the current text."""
        while True:
            checked = self._checked.get(uri)
            if checked is not None and checked.version == self._document(uri).version:
                return checked
            # the text may change meanwhile
            await self._check(uri)

    def _document(self, uri: str) -> TextDocument:
        return self.server.workspace.get_text_document(uri)

    # -- answers -----------------------------------------------------------------------------------

    async def _complete(self, params: lsp.CompletionParams) -> lsp.CompletionList:
        uri = params.text_document.uri
        document = self._document(uri)
        offset = _offset(document, params.position)
        context = context_at(document.source[:offset], document.source[offset:])
        is_typed = (
            params.context is None
            or params.context.trigger_kind != lsp.CompletionTriggerKind.TriggerCharacter
        )
        names = (await self._last_check(uri)).names
        typed = _range(document, offset - len(context.prefix), offset)
        items = [
            lsp.CompletionItem(
                label=suggestion.shown or suggestion.text,
                detail=suggestion.meta or None,
                filter_text=suggestion.text,
                sort_text=f"{number:05}",
                text_edit=lsp.TextEdit(typed, suggestion.text),
            )
            for number, suggestion in enumerate(suggestions(context, names, is_requested=is_typed))
        ]
        return lsp.CompletionList(is_incomplete=False, items=items)

    async def _hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        document = self._document(uri)
        names = (await self._last_check(uri)).names
        hover = hover_at(document.source, _offset(document, params.position), names)
        if hover is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, hover.markdown)
        return lsp.Hover(content, _range(document, hover.start, hover.end))

    async def _definition(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        place = definition_at(checked.script, _offset(document, params.position))
        return None if place is None else lsp.Location(uri, _range(document, *place))

    async def _references(self, params: lsp.ReferenceParams) -> list[lsp.Location]:
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        ranges = references_at(checked.script, _offset(document, params.position))
        return [lsp.Location(uri, _range(document, *place)) for place in ranges]

    async def _rename(self, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        changes = rename_at(checked.script, _offset(document, params.position), params.new_name)
        if changes is None:
            return None
        edits = [lsp.TextEdit(_range(document, start, end), new) for start, end, new in changes]
        return lsp.WorkspaceEdit({uri: edits})

    async def _symbols(self, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        listed = []
        for symbol in symbols(checked.script):
            place = _range(document, symbol.start, symbol.end)
            kind = lsp.SymbolKind.Class if symbol.is_definition else lsp.SymbolKind.Function
            listed.append(
                lsp.DocumentSymbol(symbol.name, kind, place, place, symbol.detail or None)
            )
        return listed

    async def _format(self, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        edits = []
        for statement in checked.script.statements:
            part = statement.part
            text = formatted(part) if statement.parsed is not None else part.text
            if text != part.text:
                end = part.offset + len(part.text)
                edits.append(lsp.TextEdit(_range(document, part.offset, end), text))
        return edits

    def _signature(self, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = self._document(params.text_document.uri)
        call = call_help_at(document.source, _offset(document, params.position))
        if call is None:
            return None
        parameters = [lsp.ParameterInformation(parameter) for parameter in call.parameters]
        label = f"{call.name}({', '.join(call.parameters)})"
        signature = lsp.SignatureInformation(label, parameters=parameters)
        return lsp.SignatureHelp([signature], 0, call.argument)

    async def _code_lenses(self, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        document = self._document(uri)
        checked = await self._current_check(uri)
        return [
            lsp.CodeLens(
                _range(document, statement.part.offset, statement.part.offset),
                lsp.Command("EXPLAIN", EXPLAIN_COMMAND, arguments=[uri, number]),
            )
            for number, statement in enumerate(checked.script.statements)
            if statement.can_explain
        ]

    async def _explain(self, uri: str, number: int) -> str:
        """Show the plan of a statement in the editor, and return it."""
        checked = await self._current_check(uri)
        if not 0 <= number < len(checked.script.statements):
            return "The document has changed: the statement no longer exists"
        loop = asyncio.get_running_loop()
        plan = await loop.run_in_executor(None, checked.script.explain, number)
        capabilities = self.server.client_capabilities.window
        if capabilities is not None and capabilities.show_document is not None:
            file = Path(self._directory.name, f"explain-{number + 1}.txt")
            file.write_text(plan, encoding="utf-8")
            shown = lsp.ShowDocumentParams(file.as_uri(), take_focus=True)
            self.server.window_show_document(shown)
        return plan


def _function_of(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a method as a function, because pygls sets attributes on handlers."""

    async def call(params: Any) -> Any:
        result = method(params)
        return await result if asyncio.iscoroutine(result) else result

    return call


def _diagnostics(document: TextDocument, script: CheckedScript) -> list[lsp.Diagnostic]:
    """Return the problems of a script, a warning where only Spark can tell."""
    return [
        lsp.Diagnostic(
            range=_range(document, problem.start, problem.end),
            message=problem.message,
            severity=lsp.DiagnosticSeverity.Error
            if problem.is_certain
            else lsp.DiagnosticSeverity.Warning,
            source="sqlwin",
        )
        for problem in script.problems
    ]


def _offset(document: TextDocument, position: lsp.Position) -> int:
    """Return the offset of a position in the text, at most its length."""
    lines = document.source.split("\n")
    if position.line >= len(lines):
        return len(document.source)
    line = lines[position.line]
    within = document.position_codec.position_from_client_units(
        [line], lsp.Position(0, position.character)
    )
    return sum(len(line) + 1 for line in lines[: position.line]) + within.character


def _range(document: TextDocument, start: int, end: int) -> lsp.Range:
    """Return the range between two offsets in the text."""

    def position(offset: int) -> lsp.Position:
        text = document.source
        first = text.rfind("\n", 0, offset) + 1
        column = document.position_codec.client_num_units(text[first:offset])
        return lsp.Position(text.count("\n", 0, offset), column)

    return lsp.Range(position(start), position(end))


def serve() -> None:
    """Serve one editor on standard input and output until it disconnects."""
    # pygls closes its stream when the editor says exit; the command line still flushes its own
    with open(os.dup(sys.stdout.fileno()), "wb") as output:
        SqlServer().server.start_io(stdout=output)
