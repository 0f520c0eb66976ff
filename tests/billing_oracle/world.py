"""What is billed: the entities of one organization, as the wire shows them, and its measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


class CannotBill(Exception):
    """The configuration has no bill: a missing rate, a refused combination."""


@dataclass(frozen=True, kw_only=True, repr=False)
class World:
    """Entities by kind, in the order of their creation; each has an `id` and refers to others by id.

    Attributes:
        organization: organizationConfig; what it leaves out has the contract's default.
        grouping_keys: Bill grouping keys with `exclusive`.
        compounds: Compound aggregations with a `calculation`, or with `calculate`,
            a function from the values by code (None without usage) to a Fraction or None.
        balances: Balances, each with a list `transactions`.
        name: How to make it again; all that a failing test shows of it.
        measurements: `{uid, meter, account, ts, measure: {…}, what: {…}, …}`, meter and account by code.
    """

    organization: Row = field(default_factory=dict)
    currencies: Sequence[Row] = ()
    accounts: Sequence[Row] = ()
    products: Sequence[Row] = ()
    meters: Sequence[Row] = ()
    aggregations: Sequence[Row] = ()
    compounds: Sequence[Row] = ()
    plan_templates: Sequence[Row] = ()
    plans: Sequence[Row] = ()
    plan_groups: Sequence[Row] = ()
    plan_group_links: Sequence[Row] = ()
    pricings: Sequence[Row] = ()
    counters: Sequence[Row] = ()
    counter_pricings: Sequence[Row] = ()
    counter_adjustments: Sequence[Row] = ()
    account_plans: Sequence[Row] = ()
    contracts: Sequence[Row] = ()
    grouping_keys: Sequence[Row] = ()
    commitments: Sequence[Row] = ()
    balances: Sequence[Row] = ()
    charges: Sequence[Row] = ()
    measurements: Sequence[Row] = ()
    name: str = "World(…)"

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Hypothesis shows no more either."""
        printer.text(self.name)


def find(rows: Sequence[Row], identifier: str) -> Row:
    """The row of this id."""
    for row in rows:
        if row["id"] == identifier:
            return row
    raise CannotBill(f"nothing has the id {identifier}")


def first_set(*values: Any) -> Any:
    """The first value that is not None: a cascade of settings."""
    return next((value for value in values if value is not None), None)


def children_of(world: World, account_id: str) -> list[Row]:
    """The children of an account, by code."""
    found = [row for row in world.accounts if row.get("parentAccountId") == account_id]
    return sorted(found, key=lambda row: row["code"])


def is_in_hierarchy(world: World, account_id: str) -> bool:
    """Whether the account has a parent or children."""
    own = find(world.accounts, account_id)
    return bool(own.get("parentAccountId")) or bool(children_of(world, account_id))
