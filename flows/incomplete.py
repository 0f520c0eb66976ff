"""What a run raises whose work is done as far as it can be."""

from collections.abc import Sequence
from typing import Final

_TOLD_MAX: Final = 5


class Incomplete(Exception):
    """Some of what was asked for could not be done; all the rest is done."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)

    def __str__(self) -> str:
        problems = self.args[0]
        more = len(problems) - _TOLD_MAX
        return "; ".join(problems[:_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")
