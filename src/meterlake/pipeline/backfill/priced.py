"""The bills that a change of stored measurements touches, with what they would come to."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

from meterlake.model.bills.bill import Bill
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.entity import Configuration
from meterlake.model.values.money import EXACT, ZERO, plain
from meterlake.model.values.period import Month
from meterlake.model.values.version import code_version
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.account_bills import read_line_credits
from meterlake.pipeline.billing.calculation.advance import read_advance_changes
from meterlake.pipeline.billing.calculation.reading import billed_parts
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import UNCHANGED, LakeState, usage_to_bill
from meterlake.pipeline.usage.usage_configuration import read_with
from meterlake.stages.bill import (
    BillIdentity,
    BillSelection,
    Provenance,
    billing_terms,
    make_bills,
    months_billed_with,
)
from meterlake.stages.usage.cycles import UsageConfiguration
from meterlake.stores import Organization
from meterlake.stores.lake.lake import Lake
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.bills import with_memos
from meterlake.stores.state.billing.credits.ledger import read_movements
from meterlake.stores.state.billing.memos.memos import MemoLine, memo_lines
from meterlake.stores.state.billing.stored_bills import StoredBill


@dataclass(frozen=True, slots=True)
class World:
    """What a difference is about: one organization, as it is configured now, at one snapshot."""

    organization: Organization
    configuration: Configuration
    snapshot: int

    @property
    def lake(self) -> Lake:
        """The organization's lake."""
        return self.organization.lake


def affected_bills(
    world: World, months: Mapping[Month, Collection[str]], instead: Mapping[str, MeterSource]
) -> Iterator[dict[str, Any]]:
    """The bills of the touched accounts, with their totals as usage is and as it would be."""
    for month, accounts in months_billed_with(world.configuration, months).items():
        with world.organization.reading() as reader:
            stored = [
                each
                for each in bills.of_period(reader, str(month))
                if each.content.key.account_id in accounts
            ]
        if not stored:
            continue
        before, after = (_make_bills(world, month, stored, using) for using in (UNCHANGED, instead))
        with world.organization.reading() as reader:
            memos = memo_lines(reader, [each.id for each in stored])
        for each in stored:
            key, own = _identity(each), memos.get(each.id, ())
            yield {
                "month": str(month),
                "account": account_code(world.configuration, key.account_id),
                "billId": each.id,
                "status": each.status.value,
                "locked": each.locked,
                "currency": each.content.currency,
                "billed": plain(each.content.total),
                "before": _total(before.get(key), own),
                "after": _total(after.get(key), own),
                "amounts": list(_amounts(before.get(key), after.get(key))),
            }


def with_difference(bill: Mapping[str, Any]) -> dict[str, Any]:
    """A touched bill with how much it changes, if it can be made with and without the change."""
    before, after = bill.get("before"), bill.get("after")
    if before is None or after is None:
        return dict(bill)
    return {**bill, "difference": plain(EXACT.subtract(Decimal(after), Decimal(before)))}


def total_by_currency(bills: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What touched bills come to together before and after, by currency, as far as they can be made."""
    comparable: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in map(with_difference, bills):
        if "difference" in each:
            comparable[each["currency"]].append(each)
    return [
        {
            "currency": currency,
            "bills": len(rows),
            **{
                name: plain(reduce(EXACT.add, (Decimal(each[name]) for each in rows)))
                for name in ("before", "after", "difference")
            },
        }
        for currency, rows in sorted(comparable.items())
    ]


def _total(bill: Bill | None, memos: Sequence[MemoLine]) -> str | None:
    """What a bill comes to with the lines that people put on it, as it would be stored."""
    return None if bill is None else plain(with_memos(content_of(bill), memos).total)


def _amounts(before: Bill | None, after: Bill | None) -> Iterator[dict[str, Any]]:
    """What the lines of a bill come to by product and type, as far as that changes."""
    if before is None or after is None:
        return
    was, would_be = _sums(before), _sums(after)
    for key in sorted(was.keys() | would_be.keys()):
        sides = was.get(key, ZERO), would_be.get(key, ZERO)
        if sides[0] != sides[1]:
            yield {
                **dict(zip(("product", "lineItemType"), key, strict=True)),
                **dict(zip(("before", "after"), map(plain, sides), strict=True)),
                "difference": plain(EXACT.subtract(sides[1], sides[0])),
            }


def _sums(bill: Bill) -> dict[tuple[str, str], Decimal]:
    found: dict[tuple[str, str], Decimal] = defaultdict(lambda: ZERO)
    for line in bill.lines:
        key = line.product.code if line.product else "", line.type.value
        found[key] = EXACT.add(found[key], line.converted_subtotal)
    return found


def _identity(bill: StoredBill) -> BillIdentity:
    return identity_of(bill.content.key)


def _make_bills(
    world: World,
    month: Month,
    stored: Iterable[StoredBill],
    instead: Mapping[str, MeterSource],
) -> dict[BillIdentity, Bill]:
    """The bills as they would be now; an account that cannot be billed has none."""
    billed = {_identity(each) for each in stored}
    try:
        selection = BillSelection(month, account_ids={each.account_id for each in billed})
        with world.organization.reading() as reader:
            changes = read_advance_changes(reader, world.configuration, selection.account_ids)
        terms = billing_terms(world.configuration, selection, changes.by_account())
        source = LakeState(world.lake, world.snapshot, instead)
        usage = usage_to_bill(
            source,
            world.configuration,
            billed_parts(terms),
            world.organization.settings,
            _usage_configuration(world, month),
            may_be_stored=False,
        )
        provenance = Provenance(world.snapshot, code_version())
        sources = (each.sources for each in terms.account_terms_of.values())
        with world.organization.reading() as reader:
            ids = [id_ for each in sources if each for id_ in each.ids]
            movements = read_movements(reader, ids)
            credited = read_line_credits(reader, terms.account_terms_of)
        made = list(make_bills(terms, usage, provenance, billed, movements, credited))
    except Invalid:
        return {}  # What cannot be billed yet has no amount; its quantities are shown all the same.
    return {BillIdentity.of_bill(each): each for each in made if isinstance(each, Bill)}


def _usage_configuration(world: World, month: Month) -> UsageConfiguration:
    with world.organization.reading() as reader:
        return read_with(reader, PeriodSpec.month(month), world.configuration)


def account_code(configuration: Configuration, id: str) -> str:
    """The code of an account; its id if it is not there yet, or any more."""
    try:
        return configuration.get(Account, id).entity.code
    except NotFound:
        return id
