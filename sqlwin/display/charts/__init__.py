"""Results as charts: for a terminal, and as SVG."""
