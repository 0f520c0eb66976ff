"""Which measurements count for an account plan: the usage filters of its contract as one value."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Self

from meterlake.model.customers.contracts import UsageFilter, UsageFilterMode


class DimensionFilter(NamedTuple):
    """What is asked of one dimension.

    Attributes:
        included: One of these values; any, and none at all, if empty.
        excluded: None of these values.
    """

    dimension: str
    included: tuple[str, ...]
    excluded: tuple[str, ...]


# A measurement passes if it passes each of them.
DimensionFilters = tuple[DimensionFilter, ...]


class UsageSelection(NamedTuple):
    """The measurements that pass some filters, or those that pass none of several.

    Contracts whose filters say the same have equal selections.

    Attributes:
        alternatives: The filters of one contract; of several where the rest is meant.
        is_rest: Whether it is the rest, for which no contract charges.
    """

    alternatives: tuple[DimensionFilters, ...]
    is_rest: bool = False

    @property
    def dimensions(self) -> frozenset[str]:
        """The codes of the fields that it looks at."""
        return frozenset(each.dimension for found in self.alternatives for each in found)

    @classmethod
    def rest_of(cls, selections: Iterable[Self]) -> Self:
        """What none of several selections has."""
        alternatives = {found for each in selections for found in each.alternatives}
        return cls(tuple(sorted(alternatives)), is_rest=True)


def select_usage(usage_filters: Iterable[UsageFilter]) -> UsageSelection | None:
    """The measurements that pass all usage filters of a contract; None if it has none."""
    values: dict[str, dict[UsageFilterMode, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in usage_filters:
        values[each.dimension_code][each.mode].add(each.value)
    filters = tuple(
        DimensionFilter(
            code,
            tuple(sorted(modes[UsageFilterMode.INCLUDE])),
            tuple(sorted(modes[UsageFilterMode.EXCLUDE])),
        )
        for code, modes in sorted(values.items())
    )
    return UsageSelection((filters,)) if filters else None
