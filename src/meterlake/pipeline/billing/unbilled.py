"""Usage that no bill charges for: written down by bill jobs, and as it is now."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from meterlake.model.bills.bill import Bill, LineItemType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import Uncovered, Unpriced
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import NotFound
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values.entity import Configuration, E, Record
from meterlake.model.values.period import Month, local_date, zone
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.damaged_accounts import DamagedAccounts
from meterlake.pipeline.billing.run import BillResult
from meterlake.stages.bill import BillIdentity, BillSelection
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Job, Reader
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.bills.versions import deleted_bills, last_version
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.billing.unbilled_usage import (
    read_first_days,
    read_unbilled_usage,
    replace_unbilled_usage,
)
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_ONE_DAY: Final = timedelta(days=1)
_MOMENT: Final = timedelta(microseconds=1)
_WRITTEN: Final = frozenset({BillOutcome.CREATED, BillOutcome.UPDATED})
_USAGE: Final = frozenset({LineItemType.USAGE, LineItemType.OVERAGE_USAGE})

Document = dict[str, Any]


def note_unbilled_usage(
    stores: Stores,
    job: Job,
    organization: Record[OrganizationConfig],
    selections: Sequence[BillSelection],
    result: BillResult,
) -> None:
    """Write down what is on no bill of the accounts and the months that a job billed.

    A run that bills a month as a whole has found all of it. Of other runs, the months of their
    bills are looked at once more, for their accounts and those that these may pay for.

    Args:
        stores: The home.
        job: The job.
        organization: Its settings.
        selections: What the job was asked for.
        result: What it came to.
    """
    with stores.state.reading(job.org_id) as reader:
        months = _billed_months(reader, organization, selections, result)
    whole = next(
        (found for each in selections if (found := _whole_month(each, organization))), None
    )
    if whole is not None:
        period = whole.period(zone(organization.entity.timezone))
        unpriced = dict.fromkeys(each for each in result.unpriced if each.period.start in period)
        _replace(stores, job, whole, unpriced, result.snapshot)
        months.pop(whole, None)
    for month, account_ids in sorted(months.items(), key=lambda each: str(each[0])):
        _look_again(stores, job, month, account_ids, result.snapshot)


def _whole_month(
    selection: BillSelection, organization: Record[OrganizationConfig]
) -> Month | None:
    """The month that a run bills as a whole, of all accounts."""
    is_partial = selection.account_ids is not None or selection.bills is not None
    if is_partial or selection.overrides.moves_periods:
        return None
    [month, *more] = _months_of_period(selection, organization)
    calendar = selection.calendar(Configuration([organization]))
    return None if more or month.period(calendar.zone) != calendar.period else month


def _months_of_period(
    selection: BillSelection, organization: Record[OrganizationConfig]
) -> list[Month]:
    calendar = selection.calendar(Configuration([organization]))
    own = zone(organization.entity.timezone)
    last = local_date(calendar.period.end - _MOMENT, own)
    return list(Month.between(local_date(calendar.period.start, own), last + _ONE_DAY))


def _billed_months(
    reader: Reader,
    organization: Record[OrganizationConfig],
    selections: Sequence[BillSelection],
    result: BillResult,
) -> dict[Month, set[str]]:
    """The accounts of bills that a job made, and of those that it was asked for, by month."""
    found: dict[Month, set[str]] = defaultdict(set)
    chosen: set[str] = set()
    for each in selections:
        if each.account_ids is None:
            continue
        chosen.update(each.account_ids)
        for month in _months_of_period(each, organization) if each.bills is None else ():
            found[month].update(each.account_ids)
    looked_at = [
        bill for bill in result.bills if bill.stored in _WRITTEN or bill.account_id in chosen
    ]
    first_days = read_first_days(reader, [bill.bill_id for bill in looked_at])
    for bill in looked_at:
        last = bill.bill_date - _ONE_DAY
        first = min(first_days.get(bill.bill_id, last), last)
        for month in Month.between(first, bill.bill_date):
            found[month].add(bill.account_id)
    return found


def _look_again(
    stores: Stores, job: Job, month: Month, account_ids: Collection[str], snapshot: int
) -> None:
    """Write down what is on no bill of a month, of some accounts and all that are related to them."""
    organization = stores.organization(job.org_id)
    with organization.reading() as reader:
        selection = BillSelection(month, account_ids=frozenset(read_relatives(reader, account_ids)))

    def find(selection: BillSelection) -> list[Unpriced]:
        reading = read_bills(organization, selection, snapshot)
        return [row for each in reading.calculations() for row in each.unpriced()]

    selection, found = DamagedAccounts(organization).work_without(selection, find)
    _replace(stores, job, month, found, snapshot, selection.account_ids)


def _replace(
    stores: Stores,
    job: Job,
    month: Month,
    found: Iterable[Unpriced],
    snapshot: int,
    account_ids: Collection[str] | None = None,
) -> None:
    with stores.state.transaction(job.org_id, job.author or SYSTEM) as transaction:
        replace_unbilled_usage(transaction, month, found, snapshot, account_ids)


def read_unbilled(organization: Organization) -> list[Document]:
    """All usage that no bill charges for, as documents by month and account.

    Raises:
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        found = list(read_unbilled_usage(reader))
        deleted = deleted_bills(reader)
    months: dict[Month, dict[str, BillKey]] = defaultdict(dict)
    for bill_id, key in deleted.items():
        last_day = key.bill_date - _ONE_DAY
        months[Month(last_day.year, last_day.month)][bill_id] = key
    for month, bills in months.items():
        look = _Look(organization, month, organization.lake.snapshot())
        account_ids = look.find(bills)
        kept = [e for e in found if e["month"] != str(month) or e["accountId"] not in account_ids]
        found = kept + look.documents
    return sorted(found, key=lambda each: (each["month"], each["accountId"]))


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at what is on no bill of a month, of accounts whose bills were deleted.

    Attributes:
        documents: What was found.
    """

    organization: Organization
    month: Month
    snapshot: int
    documents: list[Document] = field(default_factory=list)

    def find(self, bills: Mapping[str, BillKey]) -> frozenset[str]:
        """Find it, and answer the accounts of which that is all.

        Of a deleted bill that cannot be made, it is what that bill charged for.

        Args:
            bills: The keys of the deleted bills by id.
        """
        with self.organization.reading() as reader:
            family = read_relatives(reader, {key.account_id for key in bills.values()})
        damaged = DamagedAccounts(self.organization)
        selection = BillSelection(self.month, account_ids=frozenset(family))
        selection, (missing, failed) = damaged.work_without(selection, self._calculate)
        failed |= damaged.failures.keys()
        with self.organization.reading() as reader:
            for bill in missing:
                payer = _Payer(
                    StoredConfiguration(reader), bill.account_id, bill.account_code, bill.bill_date
                )
                lines = (
                    payer.usage(each.to_wire(), each.made_from.measurements) for each in bill.lines
                )
                self._add(filter(None, lines), self.snapshot)
            made = {BillIdentity.of_bill(bill) for bill in missing}
            for bill_id, key in bills.items():
                # An account may have one bill that can be made, and another one that cannot.
                if key.account_id in failed and identity_of(key) not in made:
                    # Add what a deleted bill charged for.
                    content = last_version(reader, bill_id).content
                    payer = _Payer(
                        StoredConfiguration(reader),
                        key.account_id,
                        content.body.get("accountCode"),
                        key.bill_date,
                    )
                    lines = (
                        payer.usage(each.body, each.pins.get("measurements"))
                        for each in content.lines
                    )
                    self._add(filter(None, lines), content.pins["snapshot"])
        return frozenset(selection.account_ids or ())

    def _calculate(self, selection: BillSelection) -> tuple[list[Bill], set[str]]:
        """The bills that there are not, and the accounts of which a bill cannot be made.

        What no bill would charge for is added to the documents.
        """
        self.documents.clear()
        missing: list[Bill] = []
        failed: set[str] = set()
        reading = read_bills(self.organization, selection, self.snapshot)
        for calculation in reading.calculations():
            self._add((each.to_wire() for each in calculation.unpriced()), self.snapshot)
            for account in calculation.made(BillStatus.PENDING, isolated=True):
                failed.update(each.account_id for each in account.refused)
                missing.extend(reading.not_stored(account.made))
        return missing, failed

    def _add(self, usage: Iterable[Document], snapshot: int) -> None:
        at = {"month": str(self.month), "snapshot": snapshot, "found": self.organization.now()}
        self.documents.extend({**each, **at} for each in usage)


@dataclass(frozen=True, slots=True)
class _Payer:
    """The account of a bill that there is not, as its lines are read."""

    configuration: Configuration
    account_id: str
    account_code: str | None
    bill_date: date

    def usage(self, line: Mapping[str, Any], measurements: int | None) -> Document | None:
        """The usage that a line charges for; None if it charges for something else."""
        if line["lineItemType"] not in _USAGE:
            return None
        aggregation_id = line.get("aggregationId")
        compound_id = line.get("compoundAggregationId")
        meter = self._find(Meter, line.get("meterId"))
        aggregation = self._find(Aggregation, aggregation_id)
        compound = self._find(CompoundAggregation, compound_id)
        priced = aggregation or compound
        return {
            "accountId": line.get("childAccountId", self.account_id),
            "accountCode": line.get("childAccountCode", self.account_code),
            "meterId": line.get("meterId"),
            "meterCode": meter and meter.code,
            "aggregationId": aggregation_id or compound_id,
            "aggregationCode": priced and priced.code,
            "startDateTimeUTC": line["servicePeriodStartDate"],
            "endDateTimeUTC": line["servicePeriodEndDate"],
            "quantity": line["quantity"],
            "quantityUnit": priced and quantity_unit(priced, meter),
            "units": line["units"],
            "unit": line["unit"],
            "measurements": measurements,
            "reason": Uncovered.MISSING_BILL.value,
            "detail": f"no bill of {self.bill_date}",
        }

    def _find(self, kind: type[E], id: str | None) -> E | None:
        """An entity that may be gone since."""
        if id is None:
            return None
        try:
            return self.configuration.get(kind, id).entity
        except NotFound:
            return None
