"""Completion as prompt_toolkit asks for it."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sqlwin.repl.completion.context import context_at
from sqlwin.repl.completion.suggestions import Names, suggestions

# A menu of more is of no use
_MOST = 300


class SqlCompleter(Completer):
    """Proposes what `sqlwin.repl.completion.suggestions` finds for the cursor's place."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The proposals for the word before the cursor."""
        context = context_at(document.text_before_cursor, document.text_after_cursor)
        found = suggestions(context, self._names, asked=complete_event.completion_requested)
        after = document.text_after_cursor[:1]
        for each in found[:_MOST]:
            text = each.text
            if context.quote == "`":
                text = text.removeprefix("`").removesuffix("`") + "`"
            # a closing quote or bracket that was put there already
            if after and text.endswith(after) and after in "'\"`)":
                text = text[:-1]
            yield Completion(
                text,
                start_position=-len(context.prefix),
                display=each.shown or each.text,
                display_meta=each.meta,
            )
