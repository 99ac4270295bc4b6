"""Tables, views and files that a statement of a client names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planner.sql.nodes import path_of_files, state_of_name
from sqlwin.control import SessionControl
from sqlwin.server.reading.errors import refusal
from sqlwin.server.reading.paths import ReadablePaths

Name = tuple[str, ...]

# A part of a name that no file system and no catalog reads as a path
_PLAIN = re.compile(r"[^/\\:'\"\r\n]+")
# Options of a table that change how its rows are read or generated, or which of them, but not from
# where, and that write nothing
_OPTIONS = re.compile(
    r"(csv|json|text)\.[a-z-]+(\.[a-z-]+)?|header|format|encoding|compression|version|timestamp"
    r"|fields\.\w+\.[a-z-]+|number-of-rows|rows-per-(second|batch)|seed|lookup\.[a-z.-]+"
    r"|scan\.(startup|bounded)\.[a-z-]+|source\.monitor-interval|sqlwin\.watermark\.[a-z-]+",
    re.IGNORECASE,
)
_ALLOW_PATH = "query a table (SHOW TABLES lists them), or start it with sqlwin serve --allow-path"


class ReadableRelations:
    """Judge of the names in FROM, DESCRIBE and the like.

    Args:
        control: Control of the served session.
        paths: Paths that clients may read.
    """

    def __init__(self, control: SessionControl, paths: ReadablePaths) -> None:
        self._control = control
        self._paths = paths

    def check(self, name: Name) -> None:
        """Check a name: a table, a view, a CTE, files or the state of a stream.

        An unknown name of one plain part is allowed, because nothing can be read under it.

        Raises:
            ReadOnlyError: Clients may not read it.
        """
        text = ".".join(name)
        if self._control.is_declared(name):
            return
        if len(name) == 1:
            path = path_of_files(text)
            state = state_of_name(text)
            if path is not None or state is not None:
                self.check_path(path if state is None else state.directory)
                return
        is_plain = all(map(_PLAIN.fullmatch, name)) and not self._control.is_of_statement(name[-1])
        if not is_plain or (len(name) > 1 and not self._control.is_known_to_spark(name)):
            raise refusal(
                f"cannot read `{text}`, which is not a table or view",
                subject=text,
                hint=_ALLOW_PATH,
            )

    def check_view(self, name: Name) -> None:
        """Check a table or view of Spark, which may show a table or files of sqlwin.

        Raises:
            ReadOnlyError: Clients may not read it.
        """
        origin = self._control.origin_of_view(name[0]) if len(name) == 1 else None
        of, options = (name, ()) if origin is None else origin
        self.check(of)
        self.check_options(options)

    def check_path(self, path: str | None) -> None:
        """Check a path.

        Raises:
            ReadOnlyError: Clients may not read it.
        """
        if path is None or not self._paths.allows(path):
            raise refusal(f"cannot read '{path}'", subject=path, hint=_ALLOW_PATH)

    def check_options(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Check options that a statement sets for a table.

        Raises:
            ReadOnlyError: An option could make it read something else.
        """
        for key, _ in pairs:
            if not _OPTIONS.fullmatch(key):
                raise refusal(f"cannot change the option '{key}' of a table", subject=key)
