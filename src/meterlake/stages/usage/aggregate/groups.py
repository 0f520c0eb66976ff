"""The kinds of groups of a query: one for usage as a whole, and one for each cut into segments.

Where there are several, every measurement is read once and passes once for each kind, and an
aggregation finds values in its own kind only. Grouping sets would fold every aggregation in every
kind; a query for each kind would read the table as often.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meterlake.stages.usage.aggregate.rollups import Rollup
from meterlake.stages.usage.aggregate.segments import SegmentFilter

# The number of the kind without segments; that of a cut is its place among all.
_WHOLE = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """The kinds of groups that folds need; made by `groups_of`.

    Attributes:
        kinds: Their numbers.
        segment_filters: How many cuts the rows of the query have numbers of segments for.
    """

    kinds: tuple[int, ...]
    segment_filters: int

    @property
    def several(self) -> bool:
        """Whether measurements pass more than once."""
        return len(self.kinds) > 1

    def passing(self, source: str) -> str:
        """The measurements once for each of several kinds.

        Args:
            source: What is read, with the numbers of segments.
        """
        listed = ", ".join(f"({kind})" for kind in self.kinds)
        numbers = " ".join(f"WHEN {kind} THEN m.segment{kind}" for kind in self.kinds if kind)
        return (
            f"(\n  SELECT m.*, g.kind, CASE g.kind {numbers} END AS number\n  FROM {source} AS m,"
            f"\n    (VALUES {listed}) AS g(kind)\n)"
        )

    def own(self, kind: int, value: str) -> str:
        """A value where the aggregation of a kind is to see it, NULL where it is not."""
        return f"CASE WHEN m.kind = {kind} THEN {value} END" if self.several else value

    def numbers(self) -> list[str]:
        """The number of the segment of each cut; NULL in groups of other kinds."""
        return [self._number(kind) for kind in range(1, self.segment_filters + 1)]

    def keys(self) -> list[str]:
        """What groups are told apart by, beside their accounts and periods."""
        if self.several:
            return ["m.kind", "m.number"]
        return [f"m.segment{kind}" for kind in self.kinds if kind]

    def _number(self, kind: int) -> str:
        if kind not in self.kinds:
            return "CAST(NULL AS INTEGER)"
        return self.own(kind, "m.number") if self.several else f"m.segment{kind}"


def kind_of(rollup: Rollup, segment_filters: Sequence[SegmentFilter]) -> int:
    """The number of the kind of groups that a fold belongs to."""
    return (
        _WHOLE
        if rollup.segment_filter is None
        else segment_filters.index(rollup.segment_filter) + 1
    )


def groups_of(rollups: Sequence[Rollup], segment_filters: Sequence[SegmentFilter]) -> Groups:
    """The groups that folds need; without any fold, those of usage as a whole."""
    kinds = {kind_of(rollup, segment_filters) for rollup in rollups} or {_WHOLE}
    return Groups(tuple(sorted(kinds)), len(segment_filters))
