"""Bills calculated again from what they were made from, and compared byte for byte.

Bills of one calculation are verified together: what they depend on is read once, as it was, by the
same code that made them. Only who reads is another one: a reader of the past.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement

from meterlake.model.bills.bill import Bill
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.verification import BillDifference, BillVerification, DifferenceSubject
from meterlake.model.errors import NotFound
from meterlake.model.resources.events import VERIFICATION_ALERT
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.model.values.version import calculation_digest
from meterlake.pipeline.billing.calculation.account_bills import AccountBills
from meterlake.pipeline.billing.calculation.failures import describe_error
from meterlake.pipeline.billing.calculation.recalculation import make_again, read_again
from meterlake.pipeline.billing.measured_files import check_measured_files, months_of
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.billing.verification.compared_rows import compare_former_rows, compare_rows
from meterlake.pipeline.events.incidents import resolve
from meterlake.pipeline.usage.garbage import (
    clear_garbage,
    rare_garbage_searches,
    spare_what_is_there,
)
from meterlake.stores import Organization
from meterlake.stores.lake.tables import has_snapshot
from meterlake.stores.state.billing.calculations.pins import CalculationPins, read_calculations
from meterlake.stores.state.billing.calculations.verified import (
    AlteredRow,
    BillRef,
    altered_postings,
    altered_versions,
    list_former_refs,
    list_refs,
    read_former_rows,
    read_rows,
    sample_bills,
)
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.tables import BILL, BILL_VERSION

# Accounts whose bills are compared at once.
_COMPARED: Final = 200
# Of more accounts, everything that there is is looked at once.
_MANY_ACCOUNTS: Final = 1000
# A night that begins late leaves no bill out.
_LATELY: Final = timedelta(hours=26)
_SAMPLE: Final = 100
# An event is no report: it names the first differences.
_TOLD_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class VerifyChoice:
    """Which bills are verified; all if nothing is said.

    Attributes:
        bill_ids: These.
        month: Those whose last day is in it.
        approved_since: Those that were approved from then on.
        former: What they said before, too; and what deleted ones said.
    """

    bill_ids: Sequence[str] = ()
    month: Month | None = None
    approved_since: datetime | None = None
    former: bool = False

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """What such a bill meets."""
        if self.bill_ids:
            yield BILL.c.id.in_(self.bill_ids)
        if self.month is not None:
            yield BILL.c.period == str(self.month)
        if self.approved_since is not None:
            yield BILL.c.status == BillStatus.APPROVED.value
            yield BILL.c.approved >= self.approved_since

    def former_conditions(self) -> Iterator[ColumnElement[bool]]:
        """What such a former content meets."""
        if self.bill_ids:
            yield BILL_VERSION.c.bill_id.in_(self.bill_ids)
        if self.month is not None:
            yield BILL_VERSION.c.period == str(self.month)


def verify_bills(organization: Organization, choice: VerifyChoice) -> BillVerification:
    """Calculate bills again from what they were made from, and compare.

    Raises:
        NotFound: One of the bills that were named is not there.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        refs = list_refs(reader, *choice.conditions())
        former = list_former_refs(reader, *choice.former_conditions()) if choice.former else []
        known = {each.id for each in (*refs, *former)}
        for id_ in choice.bill_ids:
            if id_ not in known:
                raise NotFound("bill", id_)
        ids = {each.calculation_id for each in (*refs, *former) if each.calculation_id is not None}
        calculations = read_calculations(reader, ids)
    result = _Result(former=0 if choice.former else None)
    with rare_garbage_searches():
        for group in (*_by_calculation(refs), *_by_calculation(former)):
            pins = calculations.get(group[0].calculation_id or "")
            if pins is None:
                result.unpinned += [each.id for each in group]
            elif group[0].version is not None and not _has_snapshot(organization, pins):
                result.expired += len(group)
            else:
                _Verification(organization, pins, group, result).run()
    return result.verification()


def _by_calculation(refs: Iterable[BillRef]) -> Iterator[list[BillRef]]:
    """Contents of one calculation, each of another bill."""
    groups: dict[tuple[str | None, int], list[BillRef]] = defaultdict(list)
    met: Counter[tuple[str | None, str]] = Counter()
    for each in refs:
        place = (each.calculation_id, each.id)
        groups[each.calculation_id, met[place]].append(each)
        met[place] += 1
    yield from groups.values()


def _has_snapshot(organization: Organization, pins: CalculationPins) -> bool:
    with organization.lake.reader() as connection:
        return has_snapshot(connection, pins.snapshot)


def verify_bill(organization: Organization, id: str, *, former: bool = False) -> dict[str, Any]:
    """The same for one bill, as the API answers; perhaps with what it said before.

    Raises:
        NotFound: There is no such bill.
        Unavailable: A store failed.
    """
    return verify_bills(organization, VerifyChoice(bill_ids=(id,), former=former)).to_wire()


@dataclass(slots=True)
class _Result:
    """What was found so far; what is wrong with something is said once of each bill."""

    former: int | None = None
    expired: int = 0
    verified: int = 0
    other_code: int = 0
    unpinned: list[str] = field(default_factory=list)
    differences: dict[tuple[object, ...], BillDifference] = field(default_factory=dict)
    # The files that were checked.
    files: set[str] = field(default_factory=set)

    def add(self, differences: Iterable[BillDifference]) -> None:
        for each in differences:
            key = (each.bill_id, each.version, each.subject, each.name, each.field)
            self.differences.setdefault(key, each)

    def verification(self) -> BillVerification:
        found = tuple(self.differences.values())
        counts = (self.verified, self.unpinned, self.other_code)
        return BillVerification(*counts, found, self.former, self.expired)


class _Verification:
    """The bills of one calculation."""

    def __init__(
        self,
        organization: Organization,
        pins: CalculationPins,
        refs: Sequence[BillRef],
        result: _Result,
    ) -> None:
        self.organization = organization
        self.pins = pins
        self.result = result
        self.open = {each.id: each for each in refs}
        self.versions = {each.id: each.version for each in refs}
        self.is_former = refs[0].version is not None
        self.accounts: dict[str, list[BillRef]] = defaultdict(list)
        for each in refs:
            self.accounts[each.account_id].append(each)
        self.is_same_code = pins.digest == calculation_digest()
        # By the ids of entities.
        self.altered: dict[str, list[AlteredRow]] = {}

    def run(self) -> None:
        """Compare every bill, and say of those that could not be calculated why."""
        count = len(self.open)
        self.compare_all()
        if self.is_former:
            self.result.former = (self.result.former or 0) + count
        else:
            self.result.verified += count
        self.result.other_code += 0 if self.is_same_code else count

    def compare_all(self) -> None:
        """Compare every bill, without counting them."""
        try:
            ids = None if len(self.accounts) > _MANY_ACCOUNTS else self.accounts.keys()
            with self.organization.past(self.pins.at).reading() as reader:
                found = list(altered_versions(reader, ids))
            self._add(map(_difference_of_version, found))
            altered: dict[str, list[AlteredRow]] = defaultdict(list)
            for row in found:
                altered[row.id].append(row)
            self.altered = altered
            bills = ((each.bill_date, each.frequency, each.interval) for each in self.open.values())
            source = self.organization, self.pins.snapshot
            self._add(check_measured_files(*source, months_of(bills), self.result.files))
            self._calculate()
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever was altered, it is a finding
            self._compare_apart(error)
        for each in self.open.values():
            self._add([_absence(each, "its calculation does not make it")])

    def _compare_apart(self, error: Exception) -> None:
        """Find whose rows are damaged: the bills of half of the accounts, then of the others.

        A row that nobody can read fails the bills of its own account, and of no other one.
        """
        left: dict[str, list[BillRef]] = defaultdict(list)
        for each in self.open.values():
            left[each.account_id].append(each)
        if len(left) <= 1:
            reason = describe_error(error)
            for each in self.open.values():
                self._add([_absence(each, reason)])
            self.open.clear()
            return
        self.open.clear()
        accounts, half = list(left.values()), len(left) // 2
        for some in (accounts[:half], accounts[half:]):
            refs = [ref for found in some for ref in found]
            _Verification(self.organization, self.pins, refs, self.result).compare_all()

    def _add(self, differences: Iterable[BillDifference]) -> None:
        """Take differences of the contents that are compared."""
        versions = self.versions
        self.result.add(
            replace(each, version=versions.get(each.bill_id or "")) for each in differences
        )

    def _calculate(self) -> None:
        reading = read_again(self.organization, self.pins, self.accounts.keys())
        is_large = len(self.accounts) > _MANY_ACCOUNTS
        for number in range(len(reading.accounts.buckets)):
            if is_large:
                spare_what_is_there()
            # Nothing keeps the calculation: the next bucket has the memory of this one.
            # Compare the bills of a bucket: those of one ledger after the other.
            calculation = reading.calculate(number)
            refs = (ref for found in self.accounts.values() for ref in found)
            for ledger_at, made in make_again(self.organization, calculation, refs):
                while some := list(islice(made, _COMPARED)):
                    self._compare(some, ledger_at)
            if is_large:
                clear_garbage()

    def _compare(self, some: Sequence[AccountBills], ledger_at: int) -> None:
        made = [bill for each in some for bill in each.made if isinstance(bill, Bill)]
        refused = {each.account_id: each.reason for found in some for each in found.refused}
        own = [ref for each in some for ref in self.accounts[each.account_id]]
        due = [ref for ref in own if ref.ledger_at == ledger_at]
        with self.organization.reading() as reader:
            ids_due = [ref.id for ref in due]
            rows = read_former_rows(reader, due) if self.is_former else read_rows(reader, ids_due)
            ids = {BillKey.of_row(row.head): id_ for id_, row in rows.items()}
            contents = {
                ids[content.key]: content for content in map(content_of, made) if content.key in ids
            }
            found = compare_rows(reader, rows, contents, is_same_code=self.is_same_code)
            if self.is_former:
                found = compare_former_rows(rows, contents, is_same_code=self.is_same_code)
            self._add(found)
            sources = {id_ for each in some for id_ in each.movements}
            self._add(
                BillDifference(
                    subject=DifferenceSubject.POSTING,
                    name=row.id,
                    field="digest",
                    stored=row.found,
                    calculated=row.written,
                )
                for row in altered_postings(reader, sources)
            )
        for id_ in contents:
            self.open.pop(id_, None)
            self._add(
                replace(_difference_of_version(each), bill_id=id_)
                for used in (_used_ids(rows[id_].head.pins) if self.altered else ())
                for each in self.altered.get(used, ())
            )
        for ref in due:
            if ref.id not in contents and ref.account_id in refused:
                self.open.pop(ref.id, None)
                self._add([_absence(ref, refused[ref.account_id])])


def _used_ids(pins: str) -> Iterable[str]:
    """The ids of the entities that a bill pins; none if nobody can read that any more."""
    try:
        return list(wire.loads(pins)["versions"])
    except (ValueError, LookupError, TypeError):
        return ()


def _difference_of_version(row: AlteredRow) -> BillDifference:
    return BillDifference(
        subject=DifferenceSubject.ENTITY,
        name=f"{row.kind} {row.id} version {row.version}",
        field="digest",
        stored=row.found,
        calculated=row.written,
    )


def _absence(ref: BillRef, reason: str) -> BillDifference:
    return BillDifference(
        subject=DifferenceSubject.CALCULATION,
        name=ref.id,
        stored="the bill",
        calculated=reason,
        bill_id=ref.id,
    )


def verify_regularly(organization: Organization, sample: int = _SAMPLE) -> BillVerification:
    """Verify the bills that were approved within a day, and some others; a difference is an incident.

    The incident is over when all of these bills are what they were.

    Raises:
        Unavailable: A store failed.
    """
    lately = verify_bills(organization, VerifyChoice(approved_since=organization.now() - _LATELY))
    with organization.reading() as reader:
        ids = tuple(sample_bills(reader, sample))
    others = verify_bills(organization, VerifyChoice(bill_ids=ids)) if ids else BillVerification()
    result = BillVerification(
        lately.verified + others.verified,
        [*lately.unpinned, *others.unpinned],
        lately.other_code + others.other_code,
        list({str(each): each for each in (*lately.differences, *others.differences)}.values()),
    )
    found = {}
    if not result.is_same:
        shown = [str(each) for each in result.differences[:_TOLD_MAX]]
        message = f"bills are not what they were: {shown[0]}"
        found[VERIFICATION_ALERT, organization.id] = {"message": message, "differences": shown}
    resolve(organization, (VERIFICATION_ALERT,), found)
    return result
