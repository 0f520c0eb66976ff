"""What is wrong with a query, and where."""


class InvalidSql(Exception):
    """A query that is not allowed, cannot be run, or gave no number.

    Attributes:
        reason: What is wrong, as a sentence.
        position: The place in the text, counted from 0; None if it is no place.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        if self.position is None:
            return self.reason
        return f"{self.reason}, at character {self.position + 1}"
