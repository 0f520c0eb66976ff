"""The entities that a bill of an account may read, and the order in which they are changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from meterlake.model.configuration.organization import CurrencyConversion, OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.resources import BY_KIND
from meterlake.model.values.entity import Record
from meterlake.stores import Organization
from meterlake.stores.state.billing.accounts.buckets import read_account_buckets
from meterlake.stores.state.core.reader import record_of

Pair = tuple[str, str]
EntityKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AccountEntities:
    """The entities that a bill of an account may read, at a moment.

    Attributes:
        records: By kind and id.
        account_ids: The account and its relatives.
    """

    records: Mapping[EntityKey, Record[Any]]
    account_ids: frozenset[str]

    @property
    def source_ids(self) -> set[str]:
        """The balances and commitments."""
        kinds = {Balance.__name__, Commitment.__name__}
        return {id_ for kind, id_ in self.records if kind in kinds}

    @property
    def organization(self) -> Record[OrganizationConfig]:
        """The settings of the organization."""
        kind = OrganizationConfig.__name__
        return next(each for (name, _), each in self.records.items() if name == kind)

    def rank(self, key: EntityKey) -> tuple[int, datetime, str]:
        """What sorts entities: those that others refer to first, then as they were created."""
        kind, id_ = key
        return _kinds_in_order()[kind], self.records[key].created, id_


def read_account_entities(organization: Organization, account_id: str) -> AccountEntities:
    """What a bill of an account may read, as the stores show it."""
    with organization.reading() as reader:
        found = read_account_buckets(reader, {account_id}, 1)
    own = [record_of(row) for row in found.buckets[0].rows]  # type: ignore[arg-type]
    records = {
        (type(each.entity).__name__, each.id): each
        for each in (*found.shared, *own)
        if BY_KIND[type(each.entity).__name__].area == "config"
    }
    accounts = {id_ for kind, id_ in records if kind == Account.__name__}
    return AccountEntities(records, frozenset({*accounts, account_id}))


def rates_of(organization: OrganizationConfig) -> dict[Pair, CurrencyConversion]:
    """The rates of an organization by pairs of currencies."""
    return {(each.from_, each.to): each for each in organization.currency_conversions}


@cache
def _kinds_in_order() -> Mapping[str, int]:
    """The kinds of entities, each after those that it refers to.

    `in_order` has unrelated kinds in another order. This one decides which of two changes of a bill
    counts for what, so it stays.
    """
    order: dict[str, int] = {}
    open_kinds: set[str] = set()

    def visit(kind: str) -> None:
        if kind in order or kind in open_kinds:
            return
        open_kinds.add(kind)
        resource = BY_KIND[kind]
        for target in (*resource.refs.values(), *resource.codes.values()):
            visit(target.__name__)
        order[kind] = len(order)

    for each in BY_KIND:
        visit(each)
    return order
