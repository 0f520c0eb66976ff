"""Account codes to ids while a file is read: known ones, new ones, and near misses.

A code that differs from another one only in case or in white space is refused: most likely it is
a slip, and its usage would go to an account that nobody bills.
"""

import itertools
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import polars as pl

from meterlake.model.values.ids import derived_id, is_code

_FEW_ROWS: Final = 10_000


class AccountCodes:
    """The accounts that exist when a file is read; never changes, so threads may share it."""

    def __init__(self, org_id: str, known: Mapping[str, str]) -> None:
        self.org_id = org_id
        self.known = known
        self._table = pl.DataFrame(
            {"code": list(known), "id": list(known.values())},
            schema={"code": pl.String, "id": pl.String},
        )

    @cached_property
    def _near(self) -> frozenset[str]:
        return frozenset(map(squeeze, self.known))

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset(self.known.values())

    def ids(self, codes: pl.Series) -> tuple[pl.Series, bool]:
        """The account id of each code, null for what can be no account code; and whether any is new.

        A new code has the id that its account will get, the same on every machine.
        """
        found = pl.DataFrame({"code": codes, "id": self._known_ids(codes)})
        unknown = codes.filter(found["id"].is_null()).drop_nulls().unique()
        if not len(unknown):
            return found["id"], False
        new = {
            code: self.new_id(code)
            for code in unknown
            if (is_code(code) and squeeze(code) not in self._near)
        }
        ids = pl.coalesce(
            "id", pl.col("code").replace_strict(new, default=None, return_dtype=pl.String)
        )
        return found.select(ids).to_series(), True

    def _known_ids(self, codes: pl.Series) -> pl.Series:
        if len(codes) <= _FEW_ROWS:
            # A join looks at all accounts, however few rows there are.
            known = self.known
            return pl.Series("id", [known.get(code) for code in codes.to_list()], pl.String)
        found = pl.DataFrame({"code": codes}).join(
            self._table, on="code", how="left", maintain_order="left"
        )
        return found["id"]

    def unknown(self, codes: pl.Series) -> list[str]:
        """The codes that have no account yet, each once, in the order of first use."""
        used = pl.DataFrame({"code": codes}).join(
            self._table, on="code", how="anti", maintain_order="left"
        )
        return used["code"].unique(maintain_order=True).to_list()

    def codes(self, ids: pl.Series, new: Iterable[str]) -> pl.Series:
        """The account codes of ids; `new` are codes among them that have no account yet."""
        table = self._table
        added = {code: self.new_id(code) for code in new}
        if added:
            table = table.vstack(
                pl.DataFrame({"code": list(added), "id": list(added.values())}, schema=table.schema)
            )
        found = pl.DataFrame({"id": ids}).join(table, on="id", how="left", maintain_order="left")
        return found["code"]

    def new_id(self, code: str) -> str:
        """The id that the account of a new code gets.

        It follows from the code alone, unless an account that was created for the code has been
        given another one since.
        """
        names = itertools.chain([()], ((str(number),) for number in itertools.count(2)))
        ids = (derived_id(self.org_id, "account", code, *name) for name in names)
        return next(each for each in ids if each not in self._taken)

    def is_near_miss(self, code: str) -> bool:
        """Whether a code has no account, but nearly equals one that has."""
        return code not in self.known and squeeze(code) in self._near


class NewAccounts:
    """The new codes of one file, admitted in the order of its rows."""

    def __init__(self) -> None:
        self.codes: dict[str, None] = {}
        self._near: dict[str, str] = {}

    def admit(self, codes: Iterable[str]) -> list[str]:
        """Take codes in; give back those that nearly equal one that came before."""
        refused = []
        for code in codes:
            if self._near.setdefault(squeeze(code), code) == code:
                self.codes[code] = None
            else:
                refused.append(code)
        return refused


def squeeze(code: str) -> str:
    """The code without case and white space: codes that agree in it are nearly the same."""
    return "".join(code.split()).casefold()
