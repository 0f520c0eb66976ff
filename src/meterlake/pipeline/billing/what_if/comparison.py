"""The bills of months, calculated twice: as all is, and as it would be.

Both sides are calculated by the same code from the same snapshot and the same reading of State, so
that what is not changed makes no difference. Each side has a ledger of its own: what the bills of
a month draw is gone for those of the next one. Nothing is stored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.what_if import (
    NAMED_MAX,
    AmountChange,
    AmountKey,
    NotPriced,
    Side,
    StoredBills,
    WhatIfSummary,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.model.resources.proposal import Document
from meterlake.model.values.entity import Record
from meterlake.model.values.money import EXACT, ZERO
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.what_if.configurations import (
    accounts_named,
    concerned_accounts,
    is_of_accounts,
    parents_of,
    propose_records,
    unlock_months,
)
from meterlake.pipeline.billing.what_if.simulated_bills import (
    MANY_ACCOUNTS,
    AccountMonth,
    BucketMonth,
    Measured,
    ProductLabel,
    SimulatedBills,
)
from meterlake.pipeline.usage.garbage import clear_garbage, rare_garbage_searches
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import UNCHANGED, LastUsage
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.calculations.simulated import stored_totals
from meterlake.stores.state.core.views.simulated_state import SimulatedState

# More months than anybody looks at take longer than anybody waits.
MONTHS_MAX: Final = 120
# What lines come to before and after.
_Sums = dict[AmountKey, list[Decimal]]


def _look_away(_: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class WhatIfChoice:
    """What is compared.

    Attributes:
        first: The first month: bills whose last day is in it.
        last: The last one.
        documents: Configuration files, as `apply` takes them.
        accounts: Only these accounts, by code or id, with the parents above them; all if None.
        instead: By the ids of meters, what would be measured in the place of what is.
        snapshot: Of the lake; the present one if None.
        by_month: Whether amounts are added up by month, too.
        allow_unknown: Whether names in the files that mean nothing are ignored.
    """

    first: Month
    last: Month
    documents: Sequence[Document] = ()
    accounts: Sequence[str] | None = None
    instead: Mapping[str, MeterSource] = field(default_factory=lambda: UNCHANGED)
    snapshot: int | None = None
    by_month: bool = False
    allow_unknown: bool = False

    @property
    def months(self) -> list[Month]:
        """All months.

        Raises:
            Invalid: The last one is before the first one, or there are too many.
        """
        found = list(Month.between(self.first.first, self.last.after))
        if not 0 < len(found) <= MONTHS_MAX:
            rule = f"it must be a month or a range such as 2026-01..2026-12, of at most {MONTHS_MAX} months"
            raise Invalid("months", f"{self.first}..{self.last}", rule)
        return found


@contextmanager
def compare_history(organization: Organization, choice: WhatIfChoice) -> Iterator["WhatIf"]:
    """Calculate the bills of months before and after; State is read as it is at the begin.

    Raises:
        Invalid: The months are none, or something in the files is wrong, as with `apply`.
        NotFound: There is no such organization or account.
        Unavailable: A store failed.
    """
    months = choice.months
    snapshot = organization.lake.snapshot() if choice.snapshot is None else choice.snapshot
    with organization.simulating(choice.first) as (simulated, state):
        found = WhatIf(simulated, state, choice, snapshot)
        with rare_garbage_searches():
            found.read(months)
            yield found


class WhatIf:
    """A comparison; its amounts are calculated as they are read, account by account.

    Attributes:
        summary: What there is to know beside the amounts; whole when all of them were read.
    """

    def __init__(
        self, organization: Organization, state: SimulatedState, choice: WhatIfChoice, snapshot: int
    ) -> None:
        self._organization = organization
        self._state, self._choice = state, choice
        self._months: Sequence[Month] = ()
        self._snapshot = snapshot
        self._changed: list[Record[Any]] = []
        self._concerned: frozenset[str] | None = None
        self._before: SimulatedBills | None = None
        self._after: SimulatedBills | None = None
        self.summary = WhatIfSummary((str(choice.first), str(choice.last)), snapshot)

    @property
    def parts(self) -> int:
        """In how many parts the amounts are calculated: the months of buckets of accounts."""
        return self._bucket_count * len(self._months)

    @property
    def _bucket_count(self) -> int:
        assert self._before is not None, "nothing was read"
        return len(self._before.account_ids)

    def read(self, months: Sequence[Month]) -> None:
        """Find out what would be, and read what holds on both sides."""
        self._months = months
        with self._state.reading(self._organization.id) as reader:
            self._changed = propose_records(
                self._organization.stores,
                reader,
                self._choice.documents,
                allow_unknown=self._choice.allow_unknown,
            )
            self.summary.changed = len(self._changed)
            open_: list[Record[Any]] = list(unlock_months(reader, self._choice.first))
            # The ids of the accounts that are calculated; of all if None.
            if self._choice.accounts is None:
                ids = None
            else:
                self._state.show(self._changed)
                chosen = accounts_named(reader, self._choice.accounts)
                parents = parents_of(reader, chosen)
                self.summary.added_accounts = tuple(sorted(parents.values()))
                ids = frozenset({*chosen, *parents})
            if self._choice.instead:
                self._concerned = None
            else:
                self._state.show([])
                stored = [reader.get(type(e.entity), e.id) for e in self._changed if e.version > 1]
                found = concerned_accounts(reader, stored)
                self._state.show(self._changed)
                more = concerned_accounts(reader, self._changed)
                self._concerned = None if found is None or more is None else frozenset(found | more)
            self._read_sides(reader, ids, open_)

    def _read_sides(
        self, reader: Reader, ids: frozenset[str] | None, open_: Sequence[Record[Any]]
    ) -> None:
        measured = Measured(self._snapshot, UNCHANGED, LastUsage())
        self._state.show(open_)
        self._before = SimulatedBills(self._organization.stores, reader, self._months, measured)
        self._before.read(ids)
        if self._concerned is not None and not self._concerned:
            return
        # The lock is that of before: history is priced anew whatever files say of it.
        kept = {each.id for each in open_}
        self._state.show([*open_, *(each for each in self._changed if each.id not in kept)])
        measured = measured._replace(instead=self._choice.instead)
        self._after = SimulatedBills(self._organization.stores, reader, self._months, measured)
        if not any(map(is_of_accounts, self._changed)):
            self._after.read(ids, self._before.accounts)
            return
        # The accounts of each bucket that are calculated after; new ones are in the last one.
        groups: list[frozenset[str]] = []
        new = {
            each.id
            for each in self._changed
            if isinstance(each.entity, Account) and (ids is None or each.id in ids)
        }.difference(*self._before.account_ids)
        for number, found in enumerate(self._before.account_ids):
            group = frozenset(found) | (
                new if number == len(self._before.account_ids) - 1 else frozenset()
            )
            groups.append(group if self._concerned is None else group & self._concerned)
        chosen = ids if self._concerned is None else frozenset().union(*groups)
        self._after.read(chosen, groups)

    def changes(self, advance: Callable[[int], None] = _look_away) -> Iterator[AmountChange]:
        """All amounts, account by account; also those that stay as they are.

        Args:
            advance: Is told how many more parts are calculated.
        """
        for number in range(self._bucket_count):
            yield from self._bucket(number, advance)

    def _bucket(self, number: int, advance: Callable[[int], None]) -> Iterator[AmountChange]:
        assert self._before is not None, "nothing was read"
        sums: _Sums = defaultdict(lambda: [ZERO, ZERO])
        self._before.begin_bucket()
        if self._after is not None:
            self._after.begin_bucket()
        for index, month in enumerate(self._months):
            before = self._before.calculate(number, index)
            with self._state.reading(self._organization.id) as reader:
                compare_with_stored(reader, month, before.accounts, self.summary.stored)
            # The other side: the same for accounts that nothing concerns.
            if self._after is None:
                after = before
            else:
                ids = self._concerned
                if ids is not None and not self._after.account_ids[number]:
                    after = before
                else:
                    after = self._after.calculate(number, index)
                    if ids is not None:
                        same = {
                            id_: each for id_, each in before.accounts.items() if id_ not in ids
                        }
                        unpriced = [each for each in before.unpriced if each.account_id not in ids]
                        after = BucketMonth(
                            {**same, **after.accounts}, [*unpriced, *after.unpriced], after.earlier
                        )
            self._note_beside(index, before, after)
            self._add(sums, str(month), before.accounts, after.accounts)
            if len(before.accounts) >= MANY_ACCOUNTS:
                clear_garbage()
            advance(1)
        self.summary.accounts += len({key.account_id for key in sums})
        for key in sorted(sums):
            change = AmountChange(key, *sums[key])
            self.summary.note(change)
            yield change

    def _note_beside(self, index: int, before: BucketMonth, after: BucketMonth) -> None:
        summary = self.summary
        summary.unpriced[Side.BEFORE] += len(before.unpriced)
        summary.unpriced[Side.AFTER] += len(after.unpriced)
        if index == 0:
            summary.earlier += len(after.earlier - before.earlier)

    def _add(
        self,
        sums: _Sums,
        month: str,
        before: Mapping[str, AccountMonth],
        after: Mapping[str, AccountMonth],
    ) -> None:
        """Add the bills of a month; an account that one of the sides refuses is in neither."""
        for account_id in before.keys() | after.keys():
            was, will = before.get(account_id), after.get(account_id)
            sides = [each for each in (was, will) if each is not None]
            if any(each.refused for each in sides):
                self._note_refused(month, was, will)
                continue
            for index, side in enumerate((was, will)):
                # A code that would be another one is no difference.
                code = sides[0].code
                for group, amount in side.sums.items() if side else ():
                    label = self._label(group.product_id)
                    key = AmountKey(
                        account=code,
                        account_id=account_id,
                        product=label.code,
                        product_name=label.name,
                        line_item_type=group.line_item_type,
                        currency=group.currency,
                        month=month if self._choice.by_month else "",
                    )
                    pair = sums[key]
                    pair[index] = EXACT.add(pair[index], amount)

    def _note_refused(
        self, month: str, was: AccountMonth | None, will: AccountMonth | None
    ) -> None:
        for side, found in ((Side.BEFORE, was), (Side.AFTER, will)):
            for reason in found.refused if found else ():
                assert found is not None
                self.summary.note_not_priced(NotPriced(month, found.code, side, reason))

    def _label(self, product_id: str) -> ProductLabel:
        """What a product is called; a name that would be another one is no difference."""
        for side in (self._before, self._after):
            if side is not None and product_id in side.products:
                return side.products[product_id]
        return ProductLabel()


def compare_with_stored(
    reader: Reader, month: Month, calculated: Mapping[str, AccountMonth], found: StoredBills
) -> None:
    """Count the stored bills of a month that come to something else; accounts without bills are left out.

    Args:
        reader: Of the simulation.
        month: The month.
        calculated: Its bills, by the ids of accounts.
        found: What was counted so far.
    """
    open_ = {key: each for account in calculated.values() for key, each in account.totals.items()}
    refused = {id_ for id_, account in calculated.items() if account.refused}
    for stored in stored_totals(reader, month, calculated.keys() - refused):
        bill = open_.pop(identity_of(stored.key), None)
        if bill is not None and (bill.currency, bill.total) == (stored.currency, stored.total):
            found.same += 1
            continue
        if bill is None and not stored.total:
            continue
        found.differing += bill is not None
        found.calculated_no_more += bill is None
        if len(found.different) < NAMED_MAX:
            found.different.append(stored.id)
    found.missing += sum(1 for each in open_.values() if each.total)
