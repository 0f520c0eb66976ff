"""The bills of a run, calculated from one snapshot and one reading of the configuration."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import Final

from meterlake.model.billed_usage import BilledUsage
from meterlake.model.billing import Bill, Failure
from meterlake.model.calendar.recurring_period import PeriodSpec
from meterlake.model.failpoint import mark_step
from meterlake.model.period import Month, local_date
from meterlake.model.pricing import BillingFrequency
from meterlake.model.unbilled import StandingBill, Unpriced
from meterlake.model.version import code_version
from meterlake.pipeline.billing.advance import AdvanceChanges, read_advance_changes
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.usage.period_usage import LakeState, usage_to_bill
from meterlake.pipeline.usage.stored_usage import BilledParts
from meterlake.pipeline.usage.usage_configuration import read_with
from meterlake.stages.bill import (
    AccountLedger,
    AccountTerms,
    BillIdentity,
    BillingTerms,
    BillMaker,
    BillSelection,
    ChosenBill,
    LineCredit,
    LineCredits,
    Movements,
    Provenance,
    billing_terms,
    unpriced_usage,
)
from meterlake.stores import Stores
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.state import Reader
from meterlake.stores.state.billing import bills
from meterlake.stores.state.billing.bill_batch import billed_keys, locked_keys
from meterlake.stores.state.billing.ledger import read_movements
from meterlake.stores.state.billing.line_credits import billed_credits
from meterlake.stores.state.billing.lock_date import lock_date

# Accounts whose commitments and balances are read at once.
_READ_TOGETHER: Final = 200


@dataclass(frozen=True, slots=True)
class AccountBills:
    """The bills of one account as a run made them.

    Attributes:
        movements: What came into and went out of its commitments and balances, as they were read.
        credits: What people credit on lines that these may pay for, as it was read.
        made: Its bills in their order, and why there are no others.
    """

    account_id: str
    movements: Movements
    credits: LineCredits
    made: tuple[Bill | Failure, ...]


@dataclass(frozen=True, slots=True)
class BillCalculation:
    """The bills of a run, before anything of them is stored.

    Attributes:
        terms: What holds in the run.
        changes: What changes of plans do to what was billed in advance.
        usage: What was used.
        billed: The bills that were made before.
        final: The bills that stay as they are, since they are locked.
        closed_until: The day up to which all bills do.
    """

    stores: Stores
    org_id: str
    terms: BillingTerms
    changes: AdvanceChanges
    usage: BilledUsage
    maker: BillMaker
    billed: frozenset[BillIdentity]
    final: frozenset[BillIdentity]
    closed_until: date | None

    def made(self) -> Iterator[AccountBills]:
        """The bills of one account after the other."""
        accounts = iter(self.maker.accounts)
        while some := list(islice(accounts, _READ_TOGETHER)):
            movements, credited = self._read(some)
            for account_terms in some:
                sources, account_id = account_terms.sources, account_terms.account.id
                own = {id_: movements.get(id_, []) for id_ in sources.ids} if sources else {}
                ledger = AccountLedger(own, self._is_final, credited.get(account_id, {}))
                made = tuple(self.maker.make(account_terms, ledger))
                yield AccountBills(account_id, own, ledger.credits, made)

    def _read(
        self, accounts: Iterable[AccountTerms]
    ) -> tuple[Movements, Mapping[str, LineCredits]]:
        paying = {each.account.id: each.sources for each in accounts if each.sources}
        if not paying:
            return {}, {}
        ids = [id_ for each in paying.values() for id_ in each.ids]
        with self.stores.state.reading(self.org_id) as reader:
            return read_movements(reader, ids), read_line_credits(reader, paying)

    def _is_final(self, key: BillIdentity) -> bool:
        is_closed = self.closed_until is not None and key.bill_date <= self.closed_until
        return is_closed or key in self.final

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
        return list(unpriced_usage(self.terms, self.usage.by_meter, self._standing()))

    def _standing(self) -> dict[str, list[StandingBill]]:
        """The bills that accounts have whose new ones are refused."""
        refused = {each.account_id for each in self.billed if self._is_refused(each.account_id)}
        found: dict[str, list[StandingBill]] = defaultdict(list)
        if refused:
            with self.stores.state.reading(self.org_id) as reader:
                for each in bills.of_accounts(reader, self.terms.calendar.bill_dates, refused):
                    key, lines = each.content.key, [line.body for line in each.content.lines]
                    found[key.account_id].append(StandingBill.of(key.bill_date, lines))
        return found

    def _is_refused(self, account_id: str) -> bool:
        account_terms = self.terms.account_terms_of.get(account_id)
        return account_terms is not None and bool(account_terms.billing_blockers)


def read_line_credits(reader: Reader, account_ids: Iterable[str]) -> Mapping[str, LineCredits]:
    """What people credit on lines of bills, by the ids of their accounts."""
    found: dict[str, dict[BillIdentity, list[LineCredit]]] = defaultdict(dict)
    for key, credited in billed_credits(reader, account_ids).items():
        found[key.account_id][identity_of(key)] = [LineCredit(*each) for each in credited]
    return found


def calculate_bills(
    stores: Stores, org_id: str, selection: BillSelection, snapshot: int
) -> BillCalculation:
    """Find out what holds and what was used for the bills of a selection.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    with stores.state.reading(org_id) as reader:
        configuration = reader.configuration()
        changes = read_advance_changes(reader, configuration, selection.account_ids)
        configuration = selection.overrides.apply(configuration)
        terms = billing_terms(configuration, selection, changes.by_account())
        usage_configuration = read_with(reader, _usage_period(terms), configuration)
        keys = billed_keys(reader, *terms.calendar.bill_dates, selection.emptied_day)
        final = frozenset(map(identity_of, locked_keys(reader, keys)))
        closed_until = lock_date(reader)
    source = LakeState(stores.lake(org_id), snapshot)
    limits = limits_of(stores.settings)
    usage = usage_to_bill(source, configuration, billed_parts(terms), limits, usage_configuration)
    mark_step("bill.folded")
    billed = frozenset(map(identity_of, keys))
    made_again = {each for each in billed if terms.may_make(each)}
    maker = BillMaker(terms, usage, Provenance(snapshot, code_version()), made_again)
    return BillCalculation(
        stores=stores,
        org_id=org_id,
        terms=terms,
        changes=changes,
        usage=usage,
        maker=maker,
        billed=billed,
        final=final,
        closed_until=closed_until,
    )


def _usage_period(terms: BillingTerms) -> PeriodSpec:
    """The organization's period whose stored quantities may serve the run."""
    last_day = local_date(terms.period.end, terms.zone) - timedelta(days=1)
    if isinstance(terms.selection.days, Month):
        return PeriodSpec.month(terms.selection.days)
    return PeriodSpec.on(terms.selection.frequency or BillingFrequency.MONTHLY, last_day)


def billed_parts(terms: BillingTerms) -> BilledParts:
    """Whose quantities the bills of a month need, and of which times."""
    accounts = terms.account_terms_of if terms.restricted else None
    return BilledParts(
        period=terms.period,
        accounts=accounts,
        windows=terms.windows,
        priced=terms.priced,
        compounds=terms.compound_windows(),
        owners=terms.usage_owners,
    )
