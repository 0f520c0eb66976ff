"""The commitments and balances of an account, as they may pay for lines of its bills.

What of them is left depends on the ledger and on the bill; when they hold and what they may pay for
does not: usage of each part of a line between their starts and ends has to be known before.

The ledger of them while the bills of the account are made, and the credits that people put on lines
of a bill: these lower what sources may pay of the lines.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.ledger import (
    Consumption,
    LedgerAccount,
    LedgerAccountType,
    Movement,
    PostingKind,
)
from meterlake.model.configuration.organization import BillCreditType, OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Period, midnight
from meterlake.stages.bill.credits.draw_downs import (
    DEFAULT_ORDER,
    CreditSource,
    PayableLine,
    cut_period,
    order_sources,
)
from meterlake.stages.bill.credits.funds import BillMoment, left_of_balance, left_of_commitment
from meterlake.stages.bill.periods.due_periods import BillIdentity
from meterlake.stages.bill.pricing.currencies import Currencies

# By the ids of the sources.
Movements = Mapping[str, Sequence[Movement]]
NO_MOVEMENTS: Final[Movements] = {}


class SourceTexts(NamedTuple):
    """What lines of a source say of it."""

    draw_down: str
    overage: str
    product_id: str | None
    overage_product_id: str | None


@dataclass(frozen=True)
class AccountSources:
    """The commitments and balances of one account.

    Attributes:
        records: By id.
        order: The kinds of sources that pay, in their order.
        sources: In the order in which they pay, without what is left of them.
    """

    records: Mapping[str, Record[Commitment] | Record[Balance]]
    order: tuple[BillCreditType, ...]
    sources: tuple[CreditSource, ...]
    _parts: dict[tuple[str, str | None, Period], tuple[Period, ...]] = field(default_factory=dict)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of all, also of those that pay no longer: bills may give back to them."""
        return tuple(self.records)

    def usage_parts(
        self, product_id: str, contract_id: str | None, period: Period
    ) -> tuple[Period, ...]:
        """The parts of a period of usage in which other sources may pay; nothing if it is one."""
        key = (product_id, contract_id, period)
        found = self._parts.get(key)
        if found is None:
            line = PayableLine(
                number=0,
                type=LineItemType.USAGE,
                amount=ZERO,
                period=period,
                product_id=product_id,
                contract_id=contract_id,
            )
            parts = cut_period(period, [each for each in self.sources if each.may_pay(line)])
            found = self._parts[key] = tuple(parts) if len(parts) > 1 else ()
        return found

    def on_bill(
        self, movements: Movements, moment: BillMoment, currencies: Currencies, currency: str
    ) -> list[CreditSource]:
        """The sources with what is left of them for a bill in a currency."""
        found = []
        for source in self.sources:
            entity = self.records[source.id].entity
            funds = _find_funds(entity, source, movements.get(source.id, ()), moment)
            rate = currencies.rate(entity.currency, currency)
            found.append(replace(source, rate=rate, **funds._asdict()))
        return found

    def texts(self, source: CreditSource) -> SourceTexts:
        """What lines of a source say of it."""
        entity = self.records[source.id].entity
        if isinstance(entity, Commitment):
            return SourceTexts(
                entity.commitment_usage_description or "Commitment drawdown",
                entity.overage_description or "Overage",
                entity.drawdowns_accounting_product_id or entity.accounting_product_id,
                entity.accounting_product_id,
            )
        return SourceTexts(
            entity.balance_draw_down_description or f"{entity.name} drawdown",
            entity.overage_description or "Overage",
            entity.consumptions_accounting_product_id,
            entity.consumptions_accounting_product_id,
        )


class SourceCatalog:
    """Finds the commitments and balances of accounts."""

    def __init__(self, configuration: Configuration, currencies: Currencies, zone: tzinfo) -> None:
        self.configuration = configuration
        self.currencies = currencies
        self.zone = zone
        self.organization = configuration.single(OrganizationConfig).entity

    def of_account(
        self, account: Record[Account], *, in_hierarchy: bool = False
    ) -> AccountSources | None:
        """Those of an account; None if it has none.

        Args:
            account: The one that is billed.
            in_hierarchy: Whether it has a parent or children: then it has no order of its own.
        """
        commitments = self.configuration.where(Commitment, "account_id", account.id)
        balances = self.configuration.where(Balance, "account_id", account.id)
        records: dict[str, Record[Commitment] | Record[Balance]] = {
            **{each.id: each for each in commitments},
            **{each.id: each for each in balances},
        }
        if not records:
            return None
        # The account's, else the organization's.
        own = account.entity.credit_application_order or self.organization.credit_application_order
        order = DEFAULT_ORDER if in_hierarchy or not own else own
        found = [
            *(self._commitment(each) for each in commitments),
            *(source for each in balances for source in self._balance(each)),
        ]
        return AccountSources(records, order, tuple(order_sources(found, order)))

    def _commitment(self, record: Record[Commitment]) -> CreditSource:
        entity = record.entity
        days = (entity.start_date, entity.end_date)
        period = Period(*(midnight(day, self.zone) for day in days))
        own = self._source(record, BillCreditType.PREPAYMENT, f"commitment {record.id}", period)
        return replace(own, separates=bool(entity.separate_overage_usage))

    def _balance(self, record: Record[Balance]) -> Iterator[CreditSource]:
        """The balance, and what of it is carried over as a source of its own."""
        entity = record.entity
        period = Period(entity.start_date, entity.end_date)
        own = self._source(record, BillCreditType.BALANCE, f"balance {entity.code!r}", period)
        own = replace(own, reprices=entity.overage_surcharge_percent is None)
        yield replace(own, overdraft=bool(entity.allow_overdraft))
        if entity.rollover_end_date is not None and entity.rollover_end_date > entity.end_date:
            carried = Period(entity.end_date, entity.rollover_end_date)
            yield replace(own, rollover=True, period=carried)

    def _source(
        self,
        record: Record[Commitment] | Record[Balance],
        kind: BillCreditType,
        name: str,
        period: Period,
    ) -> CreditSource:
        """What commitments and balances have in common as sources."""
        entity = record.entity
        places, mode = self.currencies.rounding(entity.currency)
        return CreditSource(
            id=record.id,
            kind=kind,
            name=name,
            period=period,
            created=record.created,
            left=ZERO,
            places=places,
            mode=mode,
            line_types=frozenset(entity.line_item_types),
            product_ids=frozenset(entity.product_ids),
            contract_id=entity.contract_id,
            surcharge=entity.overage_surcharge_percent,
        )


class _Funds(NamedTuple):
    """What is left of a source for a bill."""

    left: Decimal
    was_filled: bool = True
    drawn_before: Decimal = ZERO


def _find_funds(
    entity: Commitment | Balance,
    source: CreditSource,
    movements: Sequence[Movement],
    moment: BillMoment,
) -> _Funds:
    if isinstance(entity, Commitment):
        return _Funds(left_of_commitment(entity.amount, movements, moment))
    found = left_of_balance(entity, movements, moment)
    if source.rollover:
        return _Funds(found.rollover or ZERO, False, found.rollover_drawn)
    return _Funds(found.left, found.was_filled)


_ACCOUNT_TYPES: Final = {
    BillCreditType.PREPAYMENT: LedgerAccountType.COMMITMENT,
    BillCreditType.BALANCE: LedgerAccountType.BALANCE,
}


def ledger_account(source: CreditSource) -> LedgerAccount:
    """The account of the ledger that a source draws from."""
    kind = LedgerAccountType.ROLLOVER if source.rollover else _ACCOUNT_TYPES[source.kind]
    return LedgerAccount(kind, source.id)


def source_members(source: CreditSource) -> dict[str, str]:
    """The members of a line that name its source, and the contract that it is for."""
    name = "commitmentId" if source.kind is BillCreditType.PREPAYMENT else "balanceId"
    members = {name: source.id}
    return members if source.contract_id is None else members | {"contractId": source.contract_id}


class LineCredit(NamedTuple):
    """A credit of a person on a bill, about a line of the same bill.

    Attributes:
        bill_id: Of the bill.
        line_id: Of the line that it refers to, which may be gone.
        amount: What it adds to the bill: below 0.
    """

    bill_id: str
    line_id: str
    amount: Decimal

    def is_about(self, key: str) -> bool:
        """Whether it refers to a line with some key."""
        return derived_id(self.bill_id, key) == self.line_id


# By the bills on which they stand.
LineCredits = Mapping[BillIdentity, Sequence[LineCredit]]
NO_CREDITS: Final[LineCredits] = MappingProxyType({})


class AccountLedger:
    """What came in and went out, as the next bill finds it.

    A bill that is made again draws anew: what it drew before is taken back. One that is locked, or
    may not be made any more, keeps what it drew, whatever it comes to now.

    Attributes:
        read: As it was at first.
        movements: As it is now, by the ids of sources.
    """

    def __init__(
        self,
        movements: Movements = NO_MOVEMENTS,
        is_final: Callable[[BillIdentity], bool] = lambda _: False,
        credits: LineCredits = NO_CREDITS,
    ) -> None:
        """Begin.

        Args:
            movements: As the ledger has them, by the ids of sources.
            is_final: Whether a bill stays as it is.
            credits: What people credit on its bills: nothing pays for that.
        """
        self.credits = credits
        self.read = movements
        self.movements = {id_: list(found) for id_, found in movements.items()}
        self._is_final = is_final

    def note_draws(self, key: BillIdentity, draws: Iterable[Consumption]) -> None:
        """Put what a bill draws in place of what it drew."""
        if self._is_final(key):
            return
        rank = key.rank
        for id_, found in self.movements.items():
            self.movements[id_] = [
                each
                for each in found
                if each.bill != rank or each.kind is not PostingKind.CONSUMPTION
            ]
        for draw in draws:
            change = draw.amount.copy_negate()
            movement = Movement(draw.account, PostingKind.CONSUMPTION, change, None, rank)
            self.movements.setdefault(draw.account.id, []).append(movement)
