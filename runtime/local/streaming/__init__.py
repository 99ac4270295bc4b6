"""The local stage of streams: rows to partials and control messages."""
