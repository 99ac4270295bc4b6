"""`sqlwin lsp`: the language server."""

from __future__ import annotations

import click

from runtime.errors import packages_of


@click.command(short_help="Check and complete SQL in an editor.")
def lsp() -> None:
    """Serve an editor on standard input and output, with the Language Server Protocol.

    It shows errors while you type, completes and explains names, finds and renames tables and
    views, formats statements, and shows plans. It runs only the definitions of a script (CREATE,
    SET), and never starts Spark. docs/editors.md has the configuration of editors.

    Needs the extra `lsp`.

    \b
    Examples, in a shell and in the configuration of Neovim:
      sqlwin lsp
      vim.lsp.config("sqlwin", { cmd = { "sqlwin", "lsp" }, filetypes = { "sql" } })
    """  # noqa: D301 (click's mark is the character \b itself)
    with packages_of("lsp", "sqlwin lsp"):
        from sqlwin.lsp.server import serve
    serve()
