"""Tables and views of a session."""
