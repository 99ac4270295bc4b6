"""Charts of results, for a terminal and as SVG."""
