"""Tables of slices."""
