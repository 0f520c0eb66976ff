"""Usage that no bill charges for as it is now: also that of bills that were deleted since a run.

What the runs found stands in State. Where a bill was deleted and not made again, the month of its
account is calculated once more, without storing anything: as `bill review` does.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from meterlake.model.bills.bill import Bill, LineItemType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import Uncovered
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.errors import NotFound
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values.entity import Configuration, E
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.damaged_accounts import DamagedAccounts
from meterlake.stages.bill import BillIdentity, BillSelection
from meterlake.stores import Organization
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives
from meterlake.stores.state.billing.bills.versions import deleted_bills, last_version
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.billing.unbilled_usage import read_unbilled_usage
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_ONE_DAY: Final = timedelta(days=1)
_USAGE: Final = frozenset({LineItemType.USAGE, LineItemType.OVERAGE_USAGE})

Document = dict[str, Any]


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
