"""The error of a catalog query."""


class CatalogQueryError(Exception):
    """A catalog query is invalid, or has a part that SQLite lacks.

    Attributes:
        sqlstate: PostgreSQL's code.
        message: Reason.
    """

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
