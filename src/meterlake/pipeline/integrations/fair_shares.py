"""Organizations share what a sender has room for: whoever comes with one run finds room."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

# An organization takes at most so many times what stays free. So one alone takes three quarters,
# two take three sevenths each, and something is left for the next one.
_PART: Final = 3


@dataclass(slots=True)
class Shares:
    """How much of a limited number each organization has.

    Attributes:
        most: The limit of all together.
        taken: What each has.
    """

    most: int
    taken: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def room(self, org_id: str) -> int:
        """How much more an organization may take."""
        free = self.most - self.total
        # As many as leave the last one no more than its part of what is free then.
        return max(0, -((self.taken[org_id] - _PART * free) // (_PART + 1)))

    def take(self, org_id: str, count: int = 1) -> None:
        """Note that an organization takes some."""
        self.taken[org_id] += count
        self.total += count

    def give_back(self, org_id: str) -> None:
        """Note that an organization has one less."""
        self.taken[org_id] -= 1
        self.total -= 1
        if not self.taken[org_id]:
            del self.taken[org_id]


def order_by_turns(due: Mapping[str, str], last: Mapping[str, str], last_org: str) -> Iterator[str]:
    """The queues that are due: one of each organization, then the second of each, and so on.

    Args:
        due: The organization of each queue, in the order of the queues' names.
        last: The queue of each organization that had its turn last; the one after it is first.
        last_org: The organization that had its turn last.
    """
    by_org: dict[str, list[str]] = {}
    for queue, org_id in due.items():
        by_org.setdefault(org_id, []).append(queue)
    orgs = _turned(sorted(by_org), last_org)
    turned = [_turned(by_org[org_id], last.get(org_id, "")) for org_id in orgs]
    return (queue for row in zip_longest(*turned) for queue in row if queue is not None)


def _turned(names: Iterable[str], last: str) -> list[str]:
    """Sorted names, those after the last one first."""
    names = list(names)
    return [each for each in names if each > last] + [each for each in names if each <= last]
