"""One side of a comparison: the bills of months one after the other, with a ledger of their own."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.bills.bill import Bill
from meterlake.model.bills.ledger import Movement, PostingKind
from meterlake.model.bills.unbilled import Unpriced
from meterlake.model.values.money import EXACT, ZERO
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.account_bills import AccountBills
from meterlake.pipeline.billing.calculation.reading import (
    BUCKET,
    BillReading,
    read_changes,
    read_due_bills,
)
from meterlake.pipeline.usage.garbage import spare_what_is_there
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import LastUsage
from meterlake.stages.bill import BillIdentity, BillSelection
from meterlake.stores import Stores
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.accounts.buckets import (
    KeptBuckets,
    read_account_buckets,
    read_given_buckets,
)
from meterlake.stores.state.billing.calculations.simulated import simulated_memos
from meterlake.stores.state.billing.memos.memos import MemoLine

# The bills of fewer accounts leave no garbage that is worth a search through all that there is.
MANY_ACCOUNTS: Final = 1000


class Measured(NamedTuple):
    """Which measurements are read.

    Attributes:
        snapshot: Of the lake.
        instead: By the ids of meters, what is read in the place of their tables.
        last: Has the quantities that were read last, whichever side did.
    """

    snapshot: int
    instead: Mapping[str, MeterSource]
    last: LastUsage


class ProductLabel(NamedTuple):
    """What a product is called."""

    code: str = ""
    name: str = ""


class LineGroup(NamedTuple):
    """What the amounts of an account are added up by.

    Attributes:
        product_id: Empty for lines without a product.
    """

    product_id: str
    line_item_type: str
    currency: str


class BillTotal(NamedTuple):
    """What a bill comes to, with the lines that people put on it."""

    currency: str
    total: Decimal


@dataclass(slots=True)
class AccountMonth:
    """The bills of an account in a month.

    Attributes:
        code: That of the account.
        sums: Its lines, added up.
        totals: What its bills come to.
        refused: Why there are no other bills.
    """

    code: str
    sums: dict[LineGroup, Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    totals: dict[BillIdentity, BillTotal] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def add_line(self, group: LineGroup, amount: Decimal) -> None:
        """Add a line."""
        self.sums[group] = EXACT.add(self.sums[group], amount)


@dataclass(slots=True)
class BucketMonth:
    """The bills of a bucket of accounts in a month, by the ids of the accounts.

    Attributes:
        unpriced: Usage that no bill charges for.
        earlier: Open bills of before that would be made again.
    """

    accounts: dict[str, AccountMonth]
    unpriced: list[Unpriced]
    earlier: set[BillIdentity]


class SimulatedBills:
    """The bills of one side, bucket by bucket and month by month.

    Attributes:
        account_ids: Those of each bucket.
        products: What the products of the lines are called, by id.
    """

    def __init__(
        self, stores: Stores, reader: Reader, months: Sequence[Month], measured: Measured
    ) -> None:
        """Begin.

        Args:
            stores: With State as it is on this side.
            reader: Of it.
            months: Whose bills are calculated, one after the other.
            measured: Which measurements.
        """
        self._stores, self._reader = stores, reader
        self._months, self._measured = months, measured
        self._accounts: KeptBuckets | None = None
        self._readings: list[BillReading] = []
        self._memos: dict[BillIdentity, list[MemoLine]] = {}
        self._drawn: dict[str, list[Movement]] = {}
        self.products: dict[str, ProductLabel] = {}

    @property
    def account_ids(self) -> list[tuple[str, ...]]:
        """The ids of the accounts of each bucket."""
        return [each.account_ids for each in self.accounts.buckets]

    @property
    def accounts(self) -> KeptBuckets:
        """The configuration of the accounts, in buckets."""
        assert self._accounts is not None, "nothing was read"
        return self._accounts

    def read(
        self,
        account_ids: frozenset[str] | None,
        given: Sequence[Collection[str]] | KeptBuckets | None = None,
    ) -> None:
        """Read what holds on this side.

        Args:
            account_ids: The accounts whose bills are calculated; all if None.
            given: The buckets of accounts, or those of the other side, if accounts have the same of
                their own; as usual if None.
        """
        reader = self._reader
        if isinstance(given, KeptBuckets):
            accounts = self._accounts = given.with_shared(reader)
        else:
            read_buckets = (
                read_account_buckets(reader, account_ids, BUCKET)
                if given is None
                else read_given_buckets(reader, given)
            )
            accounts = self._accounts = KeptBuckets(read_buckets.shared, read_buckets.buckets)
        known = accounts, read_changes(reader, accounts, account_ids)
        for month in self._months:
            selection = BillSelection(month, account_ids=account_ids)
            measured = self._measured
            reading = read_due_bills(self._stores, reader, selection, measured.snapshot, known)
            found = replace(reading, instead=measured.instead, last=measured.last)
            self._readings.append(found)
        memos = simulated_memos(reader, self._months[0], self._months[-1])
        self._memos = {identity_of(key): lines for key, lines in memos.items()}

    def begin_bucket(self) -> None:
        """Forget what the bills of other accounts drew."""
        self._drawn = {}

    def calculate(self, number: int, index: int) -> BucketMonth:
        """The bills of a bucket in one of the months; those of the months before come first."""
        calculation = replace(self._readings[index].calculate(number), drawn=self._drawn)
        if len(self.account_ids[number]) >= MANY_ACCOUNTS:
            spare_what_is_there()
        found: dict[str, AccountMonth] = {}
        drawn: list[Bill] = []
        for each in calculation.made(isolated=True):
            found[each.account_id] = self._account_month(each)
            drawn += (bill for bill in each.made if isinstance(bill, Bill) and bill.draws)
        for bill in drawn:
            rank = BillIdentity.of_bill(bill).rank
            for draw in bill.draws:
                change = draw.amount.copy_negate()
                movement = Movement(draw.account, PostingKind.CONSUMPTION, change, None, rank)
                self._drawn.setdefault(draw.account.id, []).append(movement)
        # The bills before the first month that would be made again, but for those of its own.
        first = self._months[0].first
        earlier = {each.key for each in calculation.affected() if each.key.bill_date <= first}
        return BucketMonth(found, calculation.unpriced(), earlier)

    def _account_month(self, made: AccountBills) -> AccountMonth:
        month = AccountMonth(made.account.entity.code, refused=[e.reason for e in made.refused])
        for bill in made.made:
            if isinstance(bill, Bill):
                key = BillIdentity.of_bill(bill)
                total = bill.total
                for line in bill.lines:
                    product = line.product
                    if product is None:
                        group = LineGroup("", line.type.value, bill.currency)
                    else:
                        if product.id not in self.products:
                            self.products[product.id] = ProductLabel(product.code, product.name)
                        group = LineGroup(product.id, line.type.value, bill.currency)
                    month.add_line(group, line.converted_subtotal)
                for memo in self._memos.get(key, ()):
                    body = memo.body
                    product_id = body.get("productId", "")
                    if product_id and product_id not in self.products:
                        label = ProductLabel(
                            body.get("productCode", ""), body.get("productName", "")
                        )
                        self.products[product_id] = label
                    memo_group = LineGroup(product_id, body["lineItemType"], bill.currency)
                    month.add_line(memo_group, memo.amount)
                    total = EXACT.add(total, memo.amount)
                month.totals[key] = BillTotal(bill.currency, total)
        return month
