"""The bills of the accounts of one bucket, before anything of them is stored.

Stored bills stay as they are where nothing changed that they are made from.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, islice
from typing import Final, NamedTuple

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.bills.ledger import Movement
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import Unpriced
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Unavailable
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO, RoundingMode, round_amount
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.advance import (
    AdvanceChanges,
)
from meterlake.pipeline.billing.calculation.failures import unexpected_failure
from meterlake.stages.bill import (
    AccountLedger,
    AccountTerms,
    BillIdentity,
    BillingTerms,
    BillMaker,
    ChosenBill,
    InputDigests,
    LineCredit,
    LineCredits,
    Movements,
    unpriced_usage,
)
from meterlake.stages.bill.credits.credit_sources import NO_MOVEMENTS
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.terms.advance_lines import ClosedBills
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.calculated import CalculatedBill, read_calculated_bills
from meterlake.stores.state.billing.calculations.pins import CalculationPins
from meterlake.stores.state.billing.credits.ledger import billed_credits, read_movements

_NO_BILLS: Sequence[BillIdentity] = ()


@dataclass(frozen=True, slots=True)
class BillKeeper:
    """Compares what the bills of accounts are made from with what stored ones were made from.

    Bills that depend on the lines of other bills are always made: those of accounts with memos, and
    of runs with other periods than the organization's. So are those that are locked or closed.

    Attributes:
        digests: Of the run; None if all bills are made.
        currencies: Of the run.
        status: What changed bills will be.
        before: By the ids of accounts, the bills that the run makes again.
        is_closed: Whether a bill stays as it is, whatever it comes to.
        with_memos: The ids of accounts whose bills correct others.
    """

    digests: InputDigests | None
    currencies: Currencies
    status: BillStatus
    before: Mapping[str, Sequence[BillIdentity]]
    is_closed: Callable[[BillIdentity], bool]
    with_memos: Collection[str]

    def read_stored(
        self, reader: Reader, accounts: Iterable[AccountTerms]
    ) -> dict[str, list[CalculatedBill]]:
        """The bills that the run makes again, as they are stored, by the ids of some accounts."""
        keys = {key for each in accounts for key in self.before.get(each.account.id, ())}
        if self.digests is None or not keys:
            return {}
        dates = min(key.bill_date for key in keys), max(key.bill_date for key in keys)
        found = read_calculated_bills(reader, {key.account_id for key in keys}, dates)
        return {
            id_: [each for each in bills if identity_of(each.key) in keys]
            for id_, bills in found.items()
        }

    def keep(
        self, account_terms: AccountTerms, ledger: AccountLedger, stored: Sequence[CalculatedBill]
    ) -> tuple[CalculatedBill, ...]:
        """The stored bills of an account if all of them stay as they are; else none."""
        before = self.before.get(account_terms.account.id, _NO_BILLS)
        if len(stored) != len(before) or not all(each.inputs for each in stored):
            return ()
        digest = self._digest(account_terms, before, ledger)
        if digest is None or not all(each.keeps(digest, self.status) for each in stored):
            return ()
        kept = sorted(stored, key=lambda each: each.key.rank)
        return tuple(each._replace(total=self._total_of(each)) for each in kept)

    def _total_of(self, bill: CalculatedBill) -> Decimal:
        """The total with all decimals of its currency, as that of lines is."""
        places, _ = self.currencies.rounding(bill.currency)
        return round_amount(bill.total, places, RoundingMode.UNNECESSARY) if bill.lines else ZERO

    def digest_of(
        self, account_terms: AccountTerms, ledger: AccountLedger, made: Iterable[Bill | Failure]
    ) -> str | None:
        """What the bills of an account were made from, as the next run finds it.

        Args:
            account_terms: What holds for the account.
            ledger: With what the bills draw.
            made: The bills.

        Returns:
            None if a bill is missing, or depends on more than a digest has.
        """
        bills = {*self.before.get(account_terms.account.id, _NO_BILLS)}
        for each in made:
            if isinstance(each, Failure):
                return None
            bills.add(BillIdentity.of_bill(each))
        return self._digest(account_terms, bills, ledger) if bills else None

    def _digest(
        self, account_terms: AccountTerms, bills: Collection[BillIdentity], ledger: AccountLedger
    ) -> str | None:
        due = (each.key for each in account_terms.bills)
        if (
            self.digests is None
            or account_terms.billing_blockers
            or account_terms.account.id in self.with_memos
            or any(map(self.is_closed, {*bills, *due}))
        ):
            return None
        return self.digests.of_account(account_terms, bills, ledger)


# Accounts whose commitments and balances are read at once.
_READ_TOGETHER: Final = 200


@dataclass(frozen=True, slots=True)
class AccountBills:
    """The bills of one account as a run made them.

    Attributes:
        account: Whose they are.
        movements: What came into and went out of its commitments and balances, as they were read.
        credits: What people credit on lines that these may pay for, as it was read.
        made: Its bills in their order, and why there are no others.
        kept: Its stored bills if all of them would come out as they are; then none is made.
        inputs: The digest of what they were made from; None if they depend on more than it has.
    """

    account: Record[Account]
    movements: Movements
    credits: LineCredits
    made: tuple[Bill | Failure, ...] = ()
    kept: tuple[CalculatedBill, ...] = ()
    inputs: str | None = None

    @property
    def account_id(self) -> str:
        """The id of the account."""
        return self.account.id

    @property
    def refused(self) -> list[Failure]:
        """Why there are no other bills."""
        return [each for each in self.made if isinstance(each, Failure)]

    @property
    def count(self) -> int:
        """How many bills, or refusals, there are."""
        return len(self.made) + len(self.kept)


class _AccountState(NamedTuple):
    """What State has of some accounts.

    Attributes:
        movements: Of their commitments and balances, by the ids of these.
        credited: What people credit on lines, by account.
        stored: The bills that are made again, by account.
    """

    movements: Movements
    credited: Mapping[str, LineCredits]
    stored: Mapping[str, Sequence[CalculatedBill]]


class _Prepared(NamedTuple):
    """An account before its bills are made.

    Attributes:
        ledger: Of its commitments and balances; None if no bill is to be made.
        known: What is known of its bills.
    """

    terms: AccountTerms
    ledger: AccountLedger | None
    known: AccountBills


@dataclass(frozen=True, slots=True)
class BillCalculation:
    """The bills of a run, before anything of them is stored.

    Attributes:
        terms: What holds in the run.
        changes: What changes of plans do to what was billed in advance.
        usage: What was used.
        billed: The bills that were made before.
        closed: The bills that stay as they are.
        pins: What they are calculated from.
        drawn: What earlier bills draw that are stored nowhere, by the ids of sources.
    """

    organization: Organization
    terms: BillingTerms
    changes: AdvanceChanges
    usage: BilledUsage
    maker: BillMaker
    billed: frozenset[BillIdentity]
    closed: ClosedBills
    pins: CalculationPins
    drawn: Movements = field(default_factory=lambda: NO_MOVEMENTS)

    def made(
        self,
        status: BillStatus | None = None,
        *,
        isolated: bool = False,
        account_ids: Collection[str] | None = None,
    ) -> Iterator[AccountBills]:
        """The bills of one account after the other; see `batches`."""
        batches = self.batches(status, isolated=isolated, account_ids=account_ids)
        return chain.from_iterable(batches)

    def batches(
        self,
        status: BillStatus | None = None,
        size: int = 0,
        *,
        isolated: bool = False,
        account_ids: Collection[str] | None = None,
    ) -> Iterator[list[AccountBills]]:
        """The bills of accounts that are stored together; those of an account always are.

        Args:
            status: What changed bills will be, if stored ones that would come out as they are need
                not be made; APPROVED has those made that are not. None: all are made.
            size: How many bills a batch has at least, but for the last one, which has some; one
                account each if 0.
            isolated: An unexpected error fails its account alone, instead of being raised.
            account_ids: Only the bills of these accounts; of all if None.
        """
        is_usable = status is not None and not self.terms.selection.overrides.moves_periods
        keeper = BillKeeper(
            digests=InputDigests(self.terms, self.maker.inputs, self.closed.until)
            if is_usable
            else None,
            currencies=self.terms.currencies,
            status=status or BillStatus.PENDING,
            before=self.maker.before,
            is_closed=self.closed.has,
            with_memos=frozenset(self.changes.by_account()),
        )
        batch, count = list[AccountBills](), 0
        accounts = (
            each
            for each in self.maker.accounts
            if account_ids is None or each.account.id in account_ids
        )
        for account_terms, ledger, known in self._prepare(accounts, keeper, isolated=isolated):
            found = known
            if ledger is not None:
                try:
                    made = tuple(self.maker.make(account_terms, ledger))
                except MemoryError:
                    raise
                except Exception as error:
                    if not isolated:
                        raise
                    made = (unexpected_failure(account_terms.account, error),)
                inputs = keeper.digest_of(account_terms, ledger, made)
                found = replace(known, made=made, inputs=inputs)
            batch.append(found)
            count += found.count
            if count >= size:
                yield batch
                batch, count = [], 0
        if count:
            yield batch

    def _prepare(
        self, accounts: Iterator[AccountTerms], keeper: BillKeeper, *, isolated: bool
    ) -> Iterator[_Prepared]:
        """Accounts with what State has of them, and with the bills that stay as they are."""
        while some := list(islice(accounts, _READ_TOGETHER)):
            for account_terms, read in self._read_in_parts(some, keeper, isolated=isolated):
                if isinstance(read, Failure):
                    failed = AccountBills(account_terms.account, {}, {}, made=(read,))
                    yield _Prepared(account_terms, None, failed)
                    continue
                sources = account_terms.sources
                own = {id_: self._movements(id_, read) for id_ in sources.ids} if sources else {}
                ledger = AccountLedger(
                    own, self.closed.has, read.credited.get(account_terms.account.id, {})
                )
                found = AccountBills(account_terms.account, ledger.read, ledger.credits)
                stored = read.stored.get(account_terms.account.id, ())
                if kept := keeper.keep(account_terms, ledger, stored):
                    yield _Prepared(account_terms, None, replace(found, kept=kept))
                else:
                    yield _Prepared(account_terms, ledger, found)

    def _read_in_parts(
        self, accounts: Sequence[AccountTerms], keeper: BillKeeper, *, isolated: bool
    ) -> Iterator[tuple[AccountTerms, _AccountState | Failure]]:
        """What State has of accounts; of one with a row that cannot be read, why."""
        try:
            paying = {each.account.id: each.sources for each in accounts if each.sources}
            source_ids = [id_ for each in paying.values() for id_ in each.ids]
            with self.organization.reading() as stored:
                read = _AccountState(
                    read_movements(stored, source_ids) if source_ids else {},
                    read_line_credits(stored, paying) if source_ids else {},
                    keeper.read_stored(stored, accounts),
                )
        except (Unavailable, MemoryError):
            raise
        except Exception as error:
            if not isolated:
                raise
            if len(accounts) == 1:
                yield accounts[0], unexpected_failure(accounts[0].account, error)
                return
        else:
            yield from ((each, read) for each in accounts)
            return
        middle = len(accounts) // 2
        for some in (accounts[:middle], accounts[middle:]):
            yield from self._read_in_parts(some, keeper, isolated=True)

    def _movements(self, source_id: str, read: _AccountState) -> Sequence[Movement]:
        stored = read.movements.get(source_id, [])
        return [*stored, *self.drawn[source_id]] if source_id in self.drawn else stored

    def count_due(self) -> int:
        """How many bills are made at most; an account whose bills are refused counts as one."""
        terms = self.terms
        made_again = (each for each in self.billed if terms.may_make(each))
        due = {key for key in made_again if key.account_id in terms.account_terms_of}
        refused = 0
        for each in terms.account_terms_of.values():
            due |= {bill.key for bill in each.bills}
            refused += bool(each.billing_blockers)
        return len(due) + refused

    def affected(self) -> Iterator[ChosenBill]:
        """The bills until the last one of the run that changes of plans affect, but for its own."""
        terms = self.terms
        own = {bill.key for each in terms.account_terms_of.values() for bill in each.bills}
        own |= {each for each in self.billed if terms.may_make(each)}
        for each in self.changes.affected:
            if each.key.bill_date <= terms.calendar.bill_dates[1] and each.key not in own:
                yield each

    def unpriced(self) -> list[Unpriced]:
        """Usage that no bill charges for."""
        return list(unpriced_usage(self.terms, self.usage.by_meter))


def read_line_credits(reader: Reader, account_ids: Iterable[str]) -> Mapping[str, LineCredits]:
    """What people credit on lines of bills, by the ids of their accounts."""
    found: dict[str, dict[BillIdentity, list[LineCredit]]] = defaultdict(dict)
    for key, credited in billed_credits(reader, account_ids).items():
        found[key.account_id][identity_of(key)] = [LineCredit(*each) for each in credited]
    return found
