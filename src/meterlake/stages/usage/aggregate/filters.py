"""Usage filters: measurements that do not pass are taken out before anything is aggregated.

Each account stands once for every selection of its usage, under a name of its own. So one scan
serves all filters of a meter, and whatever reads the measurements reads those of a selection only.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import MeterUsage, Quantity
from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.usage_selection import DimensionFilters, UsageSelection
from meterlake.model.measurements.measurement import Field
from meterlake.model.values.sql import identifier

# Ids of accounts do not contain it.
_SEPARATOR: Final = "\x1f"
_SELECTED: Final = """(
  SELECT r.* REPLACE (a.name AS account_id)
  FROM (FROM {source}) AS r
  JOIN (
    SELECT
      unnest(CAST($selected_accounts AS VARCHAR[])) AS account_id,
      unnest(CAST($selected_names AS VARCHAR[])) AS name,
      unnest(CAST($selected_numbers AS INTEGER[])) AS selection,
      unnest(CAST($selected_rests AS BOOLEAN[])) AS is_rest
  ) AS a ON r.account_id = a.account_id
  WHERE a.is_rest <> EXISTS (
    FROM (
      SELECT
        unnest(CAST($filter_selections AS INTEGER[])) AS selection{lists}
    ) AS f
    WHERE f.selection = a.selection{passes}
  )
)"""
_LISTS: Final = """,
        unnest(CAST($included{n} AS VARCHAR[][])) AS included{n},
        unnest(CAST($excluded{n} AS VARCHAR[][])) AS excluded{n}"""
# A measurement without the field has none of the values.
_PASSES: Final = """
      AND (len(f.included{n}) = 0 OR coalesce(list_contains(f.included{n}, {value}), false))
      AND NOT coalesce(list_contains(f.excluded{n}, {value}), false)"""


class _Selected(NamedTuple):
    """A selection of an account's usage."""

    account_id: str
    selection: UsageSelection


class SelectedUsage:
    """The selections of accounts' usage that a scope is about."""

    def __init__(self, selected: Iterable[tuple[str, UsageSelection]]) -> None:
        """Number the selections and name the accounts.

        Args:
            selected: Account ids, and what of their usage counts; may repeat.
        """
        pairs = list(dict.fromkeys(_Selected(*each) for each in selected))
        different = dict.fromkeys(each.selection for each in pairs)
        self._numbers = {each: number for number, each in enumerate(different)}
        self._of_name = {self.name(*each): each for each in pairs}
        self._dimensions = sorted({code for each in different for code in each.dimensions})

    def name(self, account_id: str, selection: UsageSelection) -> str:
        """Under what name the measurements of a selection stand."""
        return f"{account_id}{_SEPARATOR}{self._numbers[selection]}"

    def find(self, name: str) -> tuple[str, UsageSelection]:
        """The account and the selection of a name."""
        return self._of_name[name]

    def reading(self, source: str, meter: Meter, columns: Collection[str]) -> str:
        """What is read of a source with some columns; `parameters` has the values of the text."""
        lists, passes = "", ""
        for n, code in enumerate(self._dimensions, start=1):
            lists += _LISTS.replace("{n}", str(n))
            value = _value(meter, code, columns)
            passes += _PASSES.replace("{n}", str(n)).replace("{value}", value)
        text = _SELECTED.replace("{lists}", lists).replace("{passes}", passes)
        return text.replace("{source}", source)

    def parameters(self) -> dict[str, Any]:
        """The accounts with their names, and the values of all filters."""
        pairs = list(self._of_name.values())
        filters = [
            (number, found)
            for selection, number in self._numbers.items()
            for found in selection.alternatives
        ]
        return {
            "selected_accounts": [each.account_id for each in pairs],
            "selected_names": list(self._of_name),
            "selected_numbers": [self._numbers[each.selection] for each in pairs],
            "selected_rests": [each.selection.is_rest for each in pairs],
            "filter_selections": [number for number, _ in filters],
            **self._values([found for _, found in filters]),
        }

    def _values(self, filters: Sequence[DimensionFilters]) -> dict[str, list[Sequence[str]]]:
        values: dict[str, list[Sequence[str]]] = {}
        for n, code in enumerate(self._dimensions, start=1):
            own: list[Mapping[str, Any]] = [
                next((each._asdict() for each in found if each.dimension == code), {})
                for found in filters
            ]
            for name in ("included", "excluded"):
                values[f"{name}{n}"] = [each.get(name, ()) for each in own]
        return values

    def restore(self, used: MeterUsage) -> MeterUsage:
        """Usage under its name as that of its account."""
        account_id, selection = self.find(used.account_id)

        def restored(quantities: list[Quantity]) -> list[Quantity]:
            return [
                each._replace(account_id=account_id, selection=selection) for each in quantities
            ]

        return replace(
            used,
            account_id=account_id,
            selection=selection,
            quantities=restored(used.quantities),
            unmatched=restored(used.unmatched),
        )


def _value(meter: Meter, code: str, columns: Collection[str]) -> str:
    """SQL of a measurement's value of a dimension; NULL where the meter or its table has none."""
    category = meter.category(code)
    if category is not None and category.segmenting:
        stored = Field(category, code).column
        if stored in columns:
            return f"r.{identifier(stored)}"
    return "CAST(NULL AS VARCHAR)"
