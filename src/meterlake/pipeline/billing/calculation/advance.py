"""Lines billed in advance whose plans have changed since: found, and what becomes of them.

A bill that may be changed is calculated again; a locked one gets a memo on a later bill.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Self

from meterlake.model.bills.bill import DRAWING_TYPES, LineItemType
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import midnight, zone
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.stages.bill import BillIdentity, BillingCalendar, BillOverrides, ChosenBill
from meterlake.stages.bill.advance_memos import find_memos
from meterlake.stages.bill.credits.source_returns import SourcePart
from meterlake.stages.bill.terms.advance_lines import (
    AdvanceLine,
    AdvanceMemo,
    ClosedBills,
    may_have_changed,
)
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.advance_lines import (
    ADVANCE_TYPES,
    MEMO_TYPES,
    BilledLine,
    BilledReturns,
    billed_lines,
    billed_returns,
    closed_bills,
)

# What plans and their contracts are; as long as none was changed, nothing has to be corrected.
PLANNED_KINDS: Final = frozenset({AccountPlan.__name__, Contract.__name__})
# Where the key of a line has the account plan, and that of a memo the line that it is about.
_ACCOUNT_PLAN: Final = 1
_SUBJECT: Final = 2


@dataclass(frozen=True, slots=True)
class AdvanceChanges:
    """What changes of plans do to what was billed in advance.

    Attributes:
        outdated: Bills that may be changed and were made with other versions of plans.
        memos: What corrects lines of locked bills, wherever it stands.
        stale: The bills of memos that do not have them yet, or not so.
    """

    outdated: Sequence[ChosenBill] = ()
    memos: Sequence[AdvanceMemo] = ()
    stale: Sequence[ChosenBill] = ()

    @property
    def affected(self) -> Iterator[ChosenBill]:
        """The bills that are to be calculated again."""
        yield from self.outdated
        yield from self.stale

    def by_account(self) -> dict[str, list[AdvanceMemo]]:
        """The memos by the ids of the accounts on whose bills they stand."""
        found: dict[str, list[AdvanceMemo]] = defaultdict(list)
        for each in self.memos:
            found[each.bill.account_id].append(each)
        return found


def read_advance_changes(
    reader: Reader,
    configuration: Configuration,
    account_ids: Collection[str] | None = None,
    deleted: Collection[Record[AccountPlan]] = (),
) -> AdvanceChanges:
    """Find what changes of plans do to what was billed in advance.

    Args:
        reader: Where bills are read.
        configuration: All of an organization's entities.
        account_ids: The accounts whose bills are looked at; all if None.
        deleted: Account plans that were deleted, as they were last.
    """
    # The accounts on whose bills plans may stand that were updated, or deleted, since they were
    # made.
    contracts = {each.id for each in configuration.all(Contract) if each.version > 1}
    found = set()
    for record in configuration.all(AccountPlan):
        if record.version > 1 or record.entity.contract_id in contracts:
            account = configuration.get(Account, record.entity.account_id)
            found |= {account.id, account.entity.parent_account_id or account.id}
    owners = {each.entity.account_id for each in deleted}
    for account in configuration.all(Account) if owners else ():
        if account.id in owners:
            found |= {account.id, account.entity.parent_account_id or account.id}
    accounts = found if account_ids is None else found & set(account_ids)
    if not accounts:
        return AdvanceChanges()
    return _Changes(reader, configuration, accounts, deleted).find()


class _Changes:
    """Reads what is needed, of some accounts."""

    def __init__(
        self,
        reader: Reader,
        configuration: Configuration,
        account_ids: Collection[str],
        deleted: Collection[Record[AccountPlan]],
    ) -> None:
        self.reader = reader
        self.configuration = configuration
        self.account_ids = account_ids
        self.until = closed_before(reader)
        self.calendar = BillingCalendar(configuration, DayRange.of_day(date(2000, 1, 1)))
        self.deleted = {each.id: each for each in deleted}
        self.plans = {each.id: each for each in (*configuration.all(AccountPlan), *deleted)}
        self._past: dict[tuple[str, int], Record[Any] | None] = {}

    def find(self) -> AdvanceChanges:
        stored = list(self._read(MEMO_TYPES))
        returns = list(billed_returns(self.reader, self.account_ids, self.until))
        corrections = _Corrections.of(stored, returns)
        read = (each for each in self._read(ADVANCE_TYPES) if self._is_changed(each))
        found = [(each, self._advance_line(each, corrections)) for each in read]
        given_back = {line_id for line_id, _ in corrections.returned}
        changed = [
            (each, line)
            for each, line in found
            if line.line_id in given_back
            or line.deleted is not None
            or may_have_changed(
                line, self.calendar.time_of(self.plans[line.account_plan_id].entity)
            )
        ]
        outdated = {each.bill_key: each for each, _ in changed if not each.closed}
        closed = [(each, line) for each, line in changed if each.closed]
        bill_ids = {each.bill_id for each, _ in closed}
        paid: dict[str, list[BilledLine]] = defaultdict(list)
        for each in self._read(DRAWING_TYPES) if bill_ids else ():
            if each.bill_id in bill_ids:
                paid[each.bill_id].append(each)
        lines = [
            line._replace(
                before=tuple(self._before(each)),
                paid=tuple(_paid_of(line, paid.get(each.bill_id, ()), corrections)),
            )
            for each, line in closed
        ]
        memos: list[AdvanceMemo] = []
        if lines:
            keys = closed_bills(self.reader, self.account_ids, self.until)
            bills = ClosedBills({identity_of(key) for key in keys}, self.until)
            memos = find_memos(self.configuration, lines, bills)
        return AdvanceChanges(
            [
                ChosenBill(identity_of(each.bill_key), BillOverrides.from_wire(each.overrides))
                for each in outdated.values()
            ],
            memos,
            list(_stale(memos, stored, returns)),
        )

    def _read(self, types: Sequence[LineItemType]) -> Iterator[BilledLine]:
        return billed_lines(self.reader, self.account_ids, types, self.until)

    def _is_changed(self, line: BilledLine) -> bool:
        """Whether a line is in advance, and its plan or the contract of it was changed since."""
        record = self.plans.get(line.key.split("/")[_ACCOUNT_PLAN])
        if record is None:
            return False
        timezone = zone(line.overrides.get("timezone") or self.calendar.organization.timezone)
        end = datetime.fromisoformat(line.body["servicePeriodEndDate"])
        if end <= midnight(line.bill_key.bill_date, timezone):
            return False
        if record.id in self.deleted:
            return True
        version, of_contract = line.pins.get("accountPlanVersion"), None
        contract_id = record.entity.contract_id
        if contract_id is not None:
            of_contract = self.configuration.get(Contract, contract_id).version
        pinned = line.bill_pins.get("versions", {})
        return (version, pinned.get(contract_id)) != (record.version, of_contract)

    def _plan_of(self, line: BilledLine) -> Record[AccountPlan]:
        return self.plans[line.key.split("/")[_ACCOUNT_PLAN]]

    def _advance_line(self, line: BilledLine, corrections: "_Corrections") -> AdvanceLine:
        return AdvanceLine(
            bill_id=line.bill_id,
            line_id=line.id,
            bill=identity_of(line.bill_key),
            overrides=BillOverrides.from_wire(line.overrides),
            key=line.key,
            body=line.body,
            currency=line.currency,
            account_plan_id=self._plan_of(line).id,
            active_days=line.pins.get("activeDays"),
            period_days=line.pins.get("periodDays"),
            settled=corrections.settled.get(line.id, ZERO),
            standing=corrections.standing.get(line.id),
            deleted=self.deleted.get(self._plan_of(line).id),
        )

    def _before(self, line: BilledLine) -> Iterator[Record[Any]]:
        """The account plan and its contract as the line was made with them."""
        record = self._plan_of(line)
        plan = self._at(AccountPlan, record, line.pins.get("accountPlanVersion"))
        if plan is None or record.id in self.deleted:
            return
        yield plan
        contract = self._contracts.get(plan.entity.contract_id or "")
        versions = line.bill_pins.get("versions", {})
        if contract is not None:
            before = self._at(Contract, contract, versions.get(contract.id))
            if before is not None:
                yield before

    @cached_property
    def _contracts(self) -> dict[str, Record[Contract]]:
        return {each.id: each for each in self.configuration.all(Contract)}

    def _at(self, kind: type[Entity], now: Record[Any], version: int | None) -> Record[Any] | None:
        """An entity at a version that it had."""
        if version is None or version == now.version:
            return now
        key = (now.id, version)
        if key not in self._past:
            history = self.reader.history(kind, now.id)
            entity = next((each.entity for each in history if each.version == version), None)
            known = None if entity is None else replace(now, version=version, entity=entity)
            self._past[key] = known
        return self._past[key]


@dataclass(frozen=True, slots=True)
class _Corrections:
    """What stored memos say of lines, by the ids of these.

    Attributes:
        settled: What those on closed bills add up to.
        standing: The bill of the one that may be changed.
        returned: What went back to accounts of the ledger on closed bills.
    """

    settled: dict[str, Decimal]
    standing: dict[str, BillIdentity]
    returned: dict[tuple[str, str], Decimal]

    @classmethod
    def of(cls, stored: Iterable[BilledLine], returns: Iterable[BilledReturns]) -> Self:
        settled: dict[str, Decimal] = defaultdict(lambda: ZERO)
        returned: dict[tuple[str, str], Decimal] = defaultdict(lambda: ZERO)
        standing: dict[str, BillIdentity] = {}
        for bill in returns:
            for back in bill.returns:
                if bill.closed:
                    with exact():
                        returned[back["lineId"], back["source"]] += Decimal(back["amount"])
                else:
                    standing[back["lineId"]] = identity_of(bill.bill_key)
        for each in stored:
            line_id = each.key.split("/")[_SUBJECT]
            if each.closed:
                with exact():
                    settled[line_id] += Decimal(each.body["subtotal"])
            else:
                standing[line_id] = identity_of(each.bill_key)
        return cls(settled, standing, returned)


def _paid_of(
    line: AdvanceLine, paid: Iterable[BilledLine], corrections: _Corrections
) -> Iterator[SourcePart]:
    """What sources paid of a line, and what of it went back before."""
    for each in paid:
        part = SourcePart.of_line(line.key, each.body, each.pins)
        if part is not None:
            back = corrections.returned.get((line.line_id, str(part.account)), ZERO)
            yield part._replace(returned=back)


def _stale(
    memos: Iterable[AdvanceMemo], stored: Iterable[BilledLine], returns: Iterable[BilledReturns]
) -> Iterator[ChosenBill]:
    """The bills that do not show the memos that they are to have, and those that show others."""
    wanted: dict[tuple[object, ...], Decimal] = {
        (each.bill, each.referenced_line_id): each.amount for each in memos if each.amount
    }
    wanted |= {
        (memo.bill, each.line_id, str(each.account)): each.amount
        for memo in memos
        for each in memo.returns
    }
    overrides: dict[object, BillOverrides] = {}
    shown: dict[tuple[object, ...], Decimal] = {}
    for bill_returns in returns:
        if not bill_returns.closed:
            bill = identity_of(bill_returns.bill_key)
            overrides[bill] = BillOverrides.from_wire(bill_returns.overrides)
            for back in bill_returns.returns:
                shown[bill, back["lineId"], back["source"]] = Decimal(back["amount"])
    for each in stored:
        if not each.closed:
            bill = identity_of(each.bill_key)
            overrides[bill] = BillOverrides.from_wire(each.overrides)
            shown[bill, each.key.split("/")[_SUBJECT]] = Decimal(each.body["subtotal"])
    stale = {key[0]: None for key in (*wanted, *shown) if wanted.get(key) != shown.get(key)}
    for each_bill in stale:
        assert isinstance(each_bill, BillIdentity)
        yield ChosenBill(each_bill, overrides.get(each_bill, BillOverrides()))
