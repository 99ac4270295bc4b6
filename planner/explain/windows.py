"""Windows and their parameters as EXPLAIN shows them."""

from __future__ import annotations

from dataclasses import fields

from planner.nodes.logical import AttachedWindow
from planner.sql.intervals import render_duration, render_months
from runtime.spec.windows import (
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    SessionWindow,
    Tumble,
    Window,
    window_kind,
)


def window_text(window: Window, source: str) -> str:
    """A window as Flink prints it: `HOP(time_col=[ts], size=[10 min], slide=[5 min])`."""
    months = {k: render_months(v) for k, v in months_parameters(window).items()}
    lengths = {k: render_duration(v) for k, v in window_parameters(window).items()}
    offset = " ".join(texts.pop("offset") for texts in (months, lengths) if "offset" in texts)
    given = {**months, **lengths, **({"offset": offset} if offset else {})}
    texts = [source, *(f"{name}=[{text}]" for name, text in given.items())]
    if isinstance(window, SessionWindow) and window.partition:
        texts.append(f"partition keys=[{', '.join(window.partition)}]")
    return f"{window_kind(window)}({', '.join(texts)})"


def window_parameters(window: Window) -> dict[str, int]:
    """The parameters of a window in microseconds, as EXPLAIN names them; no offset if it is 0.

    Those in months are left out.
    """
    match window:
        case Tumble():
            parameters = {"size": window.size_us}
        case Hop():
            parameters = {"size": window.size_us, "slide": window.slide_us}
        case Cumulate():
            parameters = {"max_size": window.size_us, "step": window.step_us}
        case SessionWindow():
            return {"gap": window.gap_us}
        case _:
            given = {f.name: getattr(window, f.name) for f in fields(window)}
            return {k.removesuffix("_us"): v for k, v in given.items() if k.endswith("_us") and v}
    return {**parameters, "offset": window.offset_us} if window.offset_us else parameters


def months_parameters(window: Window) -> dict[str, int]:
    """The parameters of a calendar window in months; no offset if it is 0."""
    match window:
        case CalendarTumble():
            parameters = {"size": window.size_months}
        case CalendarHop():
            parameters = {"size": window.size_months, "slide": window.slide_months}
        case CalendarCumulate():
            parameters = {"max_size": window.size_months}
            if window.step_months:
                parameters["step"] = window.step_months
        case _:
            return {}
    return {**parameters, "offset": window.offset_months} if window.offset_months else parameters


def attached_text(window: AttachedWindow) -> str:
    """Windows that rows carry: `TUMBLE(win_start=[window_start], win_end=[...], size=[10 min])`."""
    shown = [("win_start", window.start), ("win_end", window.end)]
    if window.start is None and window.end is None:
        shown = [("win_time", window.time)]
    texts = [f"{key}=[{name}]" for key, name in shown if name is not None]
    return window_text(window.spec, ", ".join(texts))
