"""What a row of the table of bodies says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.api.world import World

Body = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A resource as the SDK has it.

    Attributes:
        api: Where the SDK has its methods: `balances.charge_schedules`.
        least: The required members.
        more: What a request may add.
        change: What an update changes.
        path: What stands in the path besides the id.
        hidden: Members that are not answered as they were sent.
        kept: Members that an update cannot leave out.
        other: Rows of one `api` by a second name.
    """

    api: str
    least: Callable[[World], Body]
    more: Callable[[World], Body]
    change: Body
    path: Callable[[World], Body] = lambda _: {}
    hidden: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    other: str = ""

    def __str__(self) -> str:
        return f"{self.api}{self.other and '-'}{self.other}"
