"""What calculations read: columns of a block, and values that the configuration gives."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from meterlake.model.calculation import Lookup, Value
from meterlake.model.calculation.evaluate import no_tables


@dataclass(frozen=True, slots=True)
class AccountValues:
    """A custom field of accounts: the organization's value, and those of accounts by id."""

    default: Value
    own: Mapping[str, Value] = field(default_factory=dict)

    def of(self, account_id: Any) -> Value:
        """What it is worth for an account."""
        return self.own.get(account_id, self.default)


@dataclass(frozen=True, slots=True)
class Inputs:
    """One block of measurements, and what the names of calculations stand for in it.

    Attributes:
        frame: The measurements, with `account_id`.
        columns: The columns of names that every measurement has a value of its own for.
        accounts: Custom fields of accounts by name.
        constants: The values of names that are the same for every measurement.
        lookup: Finds the values of lookup tables.
    """

    frame: pl.DataFrame
    columns: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, AccountValues] = field(default_factory=dict)
    constants: Mapping[str, Value] = field(default_factory=dict)
    lookup: Lookup = no_tables

    @property
    def varying(self) -> set[str]:
        """The names that have another value for each measurement."""
        return {*self.columns, *self.accounts}

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Value, ...]]:
        """The values of some varying names, measurement by measurement."""
        lists = [self._values(name) for name in names]
        return zip(*lists, strict=True) if lists else iter([()] * len(self.frame))

    def _values(self, name: str) -> list[Any]:
        if name in self.columns:
            return self.frame[self.columns[name]].to_list()
        own = self.accounts[name]
        return [own.of(account_id) for account_id in self.frame["account_id"]]
