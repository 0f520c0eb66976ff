"""What can be wrong with a calculation, when it is saved and when it is computed."""

from collections.abc import Iterable
from difflib import get_close_matches

from meterlake.model.errors import Invalid


class InvalidCalculation(ValueError):
    """A text is no calculation, or one that cannot be right; whoever wrote it can correct it.

    It knows no field; `as_invalid` turns it into the error of the request that brought the text.
    """

    def __init__(self, rule: str, column: int, suggestion: str | None = None) -> None:
        """Say what is wrong.

        Args:
            rule: What is wrong, without the place.
            column: Where: the character of the text, counted from 1.
            suggestion: What was probably meant.
        """
        super().__init__(rule, column, suggestion)
        self.rule = rule
        self.column = column
        self.suggestion = suggestion

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return f"column {self.column}: {self.rule}{hint}"

    def as_invalid(self, field: str, text: str) -> Invalid:
        """The same as the error of a request: which field, its text, and what is wrong with it."""
        return Invalid(field, text, str(self))


class CalculationError(ArithmeticError):
    """A calculation has no value for these measurements: the reason of the same name.

    The measurement is kept without the derived value. It is not a `MeterlakeError`: it is about
    a row, which is data, and never reaches a caller as a refusal.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a mistyped one; letters in another case are very much so."""
    by_fold = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    found = get_close_matches(name.casefold(), by_fold, n=1)
    return by_fold[found[0]] if found else None
