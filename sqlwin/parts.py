"""Parts of sqlwin that the core starts by name and does not import.

A part reaches the core through `sqlwin.control` and what that returns. Its extra has the packages
that only the part needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Commands of the command line
COMMANDS = {
    "advise": "sqlwin.advise.command:advise",
    "compile": "sqlwin.compiling.command:compile_command",
    "lsp": "sqlwin.lsp.command:lsp",
    "serve": "sqlwin.server.command:serve",
    "test": "sqlwin.testing.command:test",
}
# Module and attribute of each command, function or class that the core starts
PLACES = {
    **COMMANDS,
    "advice": "sqlwin.advise.advice:advise",
    "advice_result": "sqlwin.advise.report:advice_result",
    "compiler": "sqlwin.compiling.scripts:Compiler",
    "observers": "sqlwin.observers:add_listeners",
    "origin": "sqlwin.origins.explain:explain_row",
    "page": "sqlwin.ui.server:serve_session",
}


def load_part(name: str) -> Any:
    """Import a part and return its function, class or command.

    Raises:
        MissingPackageError: A package of its extra is not installed.
    """
    module, _, attribute = PLACES[name].partition(":")
    return getattr(import_module(module), attribute)
