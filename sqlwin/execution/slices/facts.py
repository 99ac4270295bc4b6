"""DESCRIBE EXTENDED of a materialized table: what is kept of which time, and since when."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from planner.materialized.form import grid_text, time_text
from planner.sql.intervals import render_duration
from runtime.slices.store import StoredSlices
from runtime.spec.windows import Tumble
from sqlwin.catalog.entries import MaterializedTable


def described_slices(entry: MaterializedTable, stored: StoredSlices) -> pa.Table:
    """Facts about a materialized table: their names, and what they are.

    Args:
        entry: the table.
        stored: its slices, in the version that is described.
    """
    definition, form = entry.definition, stored.form
    files, options = stored.files, dict(definition.options)
    facts = {
        "materialized table": ".".join(entry.name),
        "of table": form.base,
        "refresh mode": definition.refresh_mode,
        "freshness": definition.freshness.removeprefix("INTERVAL "),
        "status": "suspended" if stored.is_suspended else "active",
        "keys": ", ".join(f"{key.name} {key.type}" for key in form.keys),
        "partials": ", ".join(partial.text for partial in form.partials),
        "slices": _grids(stored),
        **{key: options[key] for key in sorted(options)},
        "dropped": _dropped(stored),
        "from": _start(stored),
        "until": time_text(max(file.last_us for file in files)) if files else "",
        "rows": f"{sum(file.n_rows for file in files):,}",
        "data files": f"{len(files):,}",
        "bytes": f"{sum(file.n_bytes for file in files):,}",
        "base files": "" if definition.is_inserted else f"{len(stored.manifest):,}",
        "version": str(stored.version),
        "last change": _last_change(stored),
        "path": entry.path,
    }
    shown = {name: value for name, value in facts.items() if value}
    return pa.table({"fact": pa.array(shown), "value": pa.array(shown.values(), pa.string())})


def _grids(stored: StoredSlices) -> str:
    """How wide slices are, from the oldest on."""
    tiers = reversed(stored.reached.tiers)
    old = [f"{render_duration(t.width_us)} up to {time_text(t.until_us)}" for t in tiers]
    return ", ".join([*old, grid_text(stored.form.grid)])


def _dropped(stored: StoredSlices) -> str:
    since_us = stored.reached.since_us
    return "" if since_us is None else f"up to {time_text(since_us)}"


def _start(stored: StoredSlices) -> str:
    """Where the first slice begins; of months, where it ends."""
    if not stored.files:
        return ""
    grid, first_us = stored.form.grid, stored.files[0].first_us
    wide = [t.width_us for t in stored.reached.tiers if first_us <= t.until_us]
    if isinstance(grid, Tumble):
        return time_text(first_us - max([grid.size_us, *wide]))
    return f"before {time_text(first_us)}"


def _last_change(stored: StoredSlices) -> str:
    (commit,) = stored.delta.history(1)
    at = datetime.fromtimestamp(int(commit["timestamp"]) / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%SZ")
