"""Which stored bills of a run stay as they are, since nothing changed that they are made from."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.requests import BillStatus
from meterlake.model.values.money import ZERO, RoundingMode, round_amount
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.stages.bill import AccountLedger, AccountTerms, BillIdentity, InputDigests
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.calculated import CalculatedBill, read_calculated_bills

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
