"""Address of a session's web page."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class Page:
    """Page of a session while it is being served.

    Attributes:
        port: Port of the server.
        url: Address, including the token.
        metrics_url: Address of the metrics, including the token.
        leave: Stops serving the page.
    """

    port: int
    url: str
    metrics_url: str
    leave: Callable[[], None]

    def close(self) -> None:
        """Stop serving the page. A page that is open can still fetch the final state."""
        self.leave()

    def __repr__(self) -> str:
        return f"<sqlwin page at {self.url}>"

    def _repr_html_(self) -> str:
        url = html.escape(self.url, quote=True)
        return f'<a href="{url}" target="_blank" rel="noreferrer">{url}</a>'
