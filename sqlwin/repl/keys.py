"""Key bindings of the prompt: Enter runs complete input, brackets and quotes come in pairs."""

from __future__ import annotations

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completion, get_common_complete_suffix
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, Filter, has_focus, vi_insert_mode
from prompt_toolkit.filters.app import emacs_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from sqlwin.repl.statements import is_complete, open_piece

PAIRS = {"(": ")", "[": "]"}
QUOTES = "'\"`"


def key_bindings() -> KeyBindings:
    """Return the bindings that differ from prompt_toolkit's."""
    keys = KeyBindings()
    at_prompt = has_focus(DEFAULT_BUFFER)
    typing = at_prompt & (emacs_insert_mode | vi_insert_mode)

    @Condition
    def completion_is_chosen() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @keys.add("enter", filter=at_prompt & completion_is_chosen)
    def take_completion(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=at_prompt & ~completion_is_chosen)
    def run_or_break_line(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    @keys.add("escape", "enter", filter=at_prompt)
    def run_as_it_is(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("c-c", filter=at_prompt)
    def give_up(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text.strip():
            buffer.append_to_history()  # the Up key brings it back
        event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    @keys.add("tab", filter=typing)
    def complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_next()
            return
        if not buffer.document.current_line_before_cursor.strip() and buffer.text.strip():
            buffer.insert_text("  ")
            return
        # Complete synchronously: a menu still being built for the previous key would swallow this
        # one.
        request = CompleteEvent(completion_requested=True)
        completions = list(buffer.completer.get_completions(buffer.document, request))
        if len(completions) == 1 and _continues(
            buffer.text, buffer.cursor_position, completions[0]
        ):
            buffer.apply_completion(completions[0])
        elif state is not None:
            buffer.complete_next()
        elif common := get_common_complete_suffix(buffer.document, completions):
            buffer.insert_text(common)
        else:
            buffer.start_completion(select_first=False)

    for opening, closing in PAIRS.items():
        _add_pair(keys, opening, closing, typing)
    for quote in QUOTES:
        _add_quote(keys, quote, typing)

    @keys.add("backspace", filter=typing)
    def delete_pair(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before, after = _around(buffer)
        is_pair = PAIRS.get(before) == after != "" or (before == after and before in QUOTES)
        if is_pair and before and event.arg == 1:
            buffer.delete()
        buffer.delete_before_cursor(count=event.arg)

    return keys


def _continues(text: str, at: int, completion: Completion) -> bool:
    """Return whether a completion starts with the typed text, rather than only containing it."""
    typed = text[at + completion.start_position : at].lstrip("`")
    return completion.text.lstrip("`'").lower().startswith(typed.lower())


def _add_pair(keys: KeyBindings, opening: str, closing: str, typing: Filter) -> None:
    @keys.add(opening, filter=typing)
    def open_pair(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.insert_text(opening)
        if _stands_free(buffer) and not _is_quoted(buffer):
            buffer.insert_text(closing, move_cursor=False)

    @keys.add(closing, filter=typing)
    def close_pair(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if _around(buffer)[1] == closing and not _is_quoted(buffer):
            buffer.cursor_right()
        else:
            buffer.insert_text(closing)


def _add_quote(keys: KeyBindings, quote: str, typing: Filter) -> None:
    @keys.add(quote, filter=typing)
    def type_quote(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before, after = _around(buffer)
        is_open = open_piece(buffer.document.text_before_cursor) == quote
        if is_open and after == quote:
            buffer.cursor_right()
            return
        pairs_up = (
            not is_open
            and not _is_quoted(buffer)
            and not (before.isalnum() or before in ("_", quote))
            and _stands_free(buffer)
        )
        buffer.insert_text(quote)
        if pairs_up:
            buffer.insert_text(quote, move_cursor=False)


def _around(buffer: Buffer) -> tuple[str, str]:
    """Return the characters before and after the cursor, empty at the ends."""
    text, at = buffer.text, buffer.cursor_position
    return text[at - 1 : at] if at else "", text[at : at + 1]


def _stands_free(buffer: Buffer) -> bool:
    """Return whether a closing character can be inserted without touching a word."""
    after = _around(buffer)[1]
    return not after or after.isspace() or after in ")],;"


def _is_quoted(buffer: Buffer) -> bool:
    return open_piece(buffer.document.text_before_cursor) in ("'", '"', "`", "/*")
