"""The local stage: rows to partials of slices, before the exchange."""
