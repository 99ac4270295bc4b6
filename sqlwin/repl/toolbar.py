"""Prompt text and the toolbar at the bottom of the screen."""

from __future__ import annotations

import time

from prompt_toolkit.application.current import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_width
from prompt_toolkit.key_binding.vi_state import InputMode

from sqlwin.repl.commands import ReplOptions
from sqlwin.repl.completion.call_help import call_at
from sqlwin.repl.session_thread import SessionState, SessionThread
from sqlwin.repl.statements import open_piece

NAME = "sqlwin"
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def prompt(thread: SessionThread) -> StyleAndTextTuples:
    """Return `sqlwin> `, in another colour until the session is ready."""
    style = "class:prompt" if thread.state is SessionState.READY else "class:prompt,prompt.waiting"
    return [(style, f"{NAME}> ")]


def continuation(width: int, line: int, wrapped: int) -> StyleAndTextTuples:
    """Return the prefix of continuation lines, which shows the open piece."""
    if wrapped:
        return [("class:prompt.more", " " * width)]
    lines = get_app().current_buffer.document.lines[:line]
    mark = (open_piece("\n".join(lines)) or "-")[-1]
    return [("class:prompt.more", f"{mark}> ".rjust(width))]


def toolbar(thread: SessionThread, options: ReplOptions) -> StyleAndTextTuples:
    """Return the state of Spark and the options, or help for the call at the cursor."""
    app = get_app()
    left = _call_help(app.current_buffer.document.text_before_cursor) or [
        *_state(thread),
        *_switches(options),
    ]
    right = r"\? help  Ctrl-D leaves "
    room = app.output.get_size().columns - fragment_list_width(left) - len(right)
    if room < 2:
        return left
    return [*left, ("", " " * room), ("", right)]


def _state(thread: SessionThread) -> StyleAndTextTuples:
    if thread.state is SessionState.STARTING or thread.is_starting_spark:
        seconds = time.monotonic() - thread.started
        spin = _SPINNER[int(seconds * 8) % len(_SPINNER)]
        text = f" {spin} Spark is starting, {seconds:.0f} s"
        return [("class:bottom-toolbar.waiting", text)]
    if thread.state is SessionState.FAILED:
        return [("class:bottom-toolbar.failed", " Spark did not start")]
    if thread.is_busy:
        return [("class:bottom-toolbar.waiting", " working")]
    return [("", f" {thread.name}")]


def _switches(options: ReplOptions) -> StyleAndTextTuples:
    parts = [options.format]
    if options.vertical != "off":
        parts.append("vertical" if options.vertical == "on" else "vertical auto")
    if options.output is not None:
        parts.append(f"to {options.output.path}")
    if options.keys == "vi":
        is_normal = get_app().vi_state.input_mode is InputMode.NAVIGATION
        parts.append("vi normal" if is_normal else "vi")
    return [("", "".join(f"  {part}" for part in parts))]


def _call_help(before: str) -> StyleAndTextTuples:
    """Return the call at the cursor, `HOP(TABLE data, ...)`, with its argument highlighted."""
    call = call_at(before)
    if call is None:
        return []
    fragments: StyleAndTextTuples = [("class:bottom-toolbar.call", f" {call.name}(")]
    for i, parameter in enumerate(call.parameters):
        style = "bottom-toolbar.argument" if i == call.argument else "bottom-toolbar.call"
        fragments.append(("class:bottom-toolbar.call", ", " if i else ""))
        fragments.append((f"class:{style}", parameter))
    fragments.append(("class:bottom-toolbar.call", ")"))
    return fragments
