"""Tables of slices: partials kept in Delta tables, and how they follow the files of a table."""
