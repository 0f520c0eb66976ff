"""A small organization for tests of billing: what a test does not care about is filled in.

Measurements live in a real DuckDB, in tables shaped like the lake's.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb

from meterlake.model.bills.bill import Bill, Failure, MeterUsage, Quantity
from meterlake.model.bills.billed_usage import BilledUsage, MissingQuantity
from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType, Movement, PostingKind
from meterlake.model.bills.unbilled import NoBill, Unpriced
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Product
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.plans import (
    BillingFrequency,
    Plan,
    PlanGroup,
    PlanGroupLink,
    PlanTemplate,
    Pricing,
)
from meterlake.model.configuration.organization import BillGroupingKey, Currency, OrganizationConfig
from meterlake.model.custom_sql import InvalidSql
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month, Period, aware, parse_instant
from meterlake.stages.bill import (
    AccountLedger,
    BillIdentity,
    BillingTerms,
    BillSelection,
    Provenance,
    billing_terms,
    make_bills,
    unpriced_usage,
    without_bill,
)
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.assemble import add_compounds
from meterlake.stores.custom_sql import Sandbox
from meterlake.stores.lake.measurements.groups import groups

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
SNAPSHOT = 7

# What aggregations can read.
COLUMNS = {"measure.n", "what.s", "where.r"}

_CREATE = """
CREATE TEMP TABLE {} (
    uid VARCHAR, account_id VARCHAR, ts TIMESTAMP, ets TIMESTAMP,
    "measure.n" DECIMAL(38,12), "what.s" VARCHAR, "where.r" VARCHAR
)"""


def instant(text: str) -> datetime:
    found = parse_instant(text)
    assert found is not None, text
    return found


def record(entity: Entity, name: str, version: int = 1) -> Record[Any]:
    entity_id = derived_id(type(entity).__name__, name)
    return Record(entity_id, version, entity, LONG_AGO, "test", LONG_AGO, "test")


def bands(*rows: tuple[Any, Any, Any]) -> tuple[dict[str, Any], ...]:
    """Bands from (lower limit, fixed price, unit price)."""
    names = ("lowerLimit", "fixedPrice", "unitPrice")
    return tuple(dict(zip(names, map(decimal, row), strict=True)) for row in rows)


def decimal(value: Any) -> Decimal:
    assert not isinstance(value, float), value
    return Decimal(value)


# The fields of a meter whose measurements are in such a table.
DATA_FIELDS = (
    {"category": "MEASURE", "code": "n", "name": "n"},
    {"category": "WHAT", "code": "s", "name": "s"},
    {"category": "WHERE", "code": "r", "name": "r"},
)


def sources_of(configuration: Configuration, account_id: str) -> list[str]:
    """The ids of the commitments and balances of an account."""
    commitments = configuration.where(Commitment, "account_id", account_id)
    balances = configuration.where(Balance, "account_id", account_id)
    return [*(each.id for each in commitments), *(each.id for each in balances)]


def note_draws(
    movements: dict[str, list[Movement]], configuration: Configuration, made: Iterable[object]
) -> None:
    """Add to what came into and went out of sources what the bills of a run draw."""
    for bill in made:
        if isinstance(bill, Bill):
            sources = sources_of(configuration, bill.account_id)
            ledger = AccountLedger({id_: movements.get(id_, []) for id_ in sources})
            ledger.note_draws(BillIdentity.of_bill(bill), bill.draws)
            movements.update(ledger.movements)


def open_measurements(*tables: str) -> duckdb.DuckDBPyConnection:
    """A database with an empty table of measurements for each meter."""
    db = _engine().cursor()
    for table in tables:
        db.execute(_CREATE.format(table))
    return db


def read_usage(
    db: duckdb.DuckDBPyConnection,
    table: str,
    meter: Meter,
    rollups: list[aggregate.Rollup],
    scope: aggregate.AggregationScope,
) -> list[MeterUsage]:
    """What the measurements of a table add up to."""
    rollups = [each for each in rollups if scope.folds(each.aggregation.id)]
    table = scope.reading(table, meter, COLUMNS)
    statement = aggregate.query(table, rollups, scope)
    try:
        rows = db.execute(*statement).fetchall()
    except duckdb.OutOfRangeException:
        rows = None
    if rows is None or aggregate.needs_wide(rows):
        statement = aggregate.query(table, rollups, scope, wide=True)
        rows = db.execute(*statement).fetchall()
    return list(scope.restore(aggregate.decode(rollups, rows, statement)))


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One for all worlds, which takes 20 ms to open; temporary tables are those of a cursor."""
    return duckdb.connect()


class World:
    """One organization with one product and one meter: `n` is a number, `s` and `r` are texts."""

    def __init__(self, **organization: Any) -> None:
        settings = {"currency": "USD", "days_before_bill_due": 30, **organization}
        self.records: dict[str, Record[Any]] = {}
        self.add(OrganizationConfig(**settings), "organization")
        self.product = self.add(Product(name="Product", code="product"), "product")
        self.meter = self.add(
            Meter(name="Meter", code="meter", data_fields=DATA_FIELDS, derived_fields=()), "meter"
        )
        self.db = open_measurements("m")
        self.movements: dict[str, list[Movement]] = {}
        self._uids = 0

    def add(self, entity: Entity, name: str) -> str:
        made = record(entity, name)
        self.records[made.id] = made
        return made.id

    def currency(self, code: str, places: int, mode: str = "HALF_UP") -> str:
        entity = Currency(name=code, code=code, max_decimal_places=places, rounding_mode=mode)
        return self.add(entity, code)

    def aggregation(self, code: str, reduce: str = "SUM", field: str = "n", **more: Any) -> str:
        settings = {
            "name": code,
            "rounding": "NONE",
            "quantity_per_unit": Decimal(1),
            "unit": "unit",
            **more,
        }
        return self.add(
            Aggregation(
                code=code,
                meter_id=self.meter,
                target_field=field,
                aggregation=reduce,
                **settings,
            ),
            code,
        )

    def compound(self, code: str, calculation: str, **more: Any) -> str:
        """A compound aggregation; of the product if `own` is set, else a global one."""
        settings = {
            "name": code,
            "rounding": "NONE",
            "quantity_per_unit": Decimal(1),
            "unit": "unit",
            "product_id": self.product if more.pop("own", False) else None,
            **more,
        }
        return self.add(CompoundAggregation(code=code, calculation=calculation, **settings), code)

    def plan(self, code: str, template: Mapping[str, Any] | None = None, **more: Any) -> str:
        settings = {
            "currency": "USD",
            "standing_charge": Decimal(0),
            "bill_frequency": "MONTHLY",
            **(template or {}),
        }
        product = settings.pop("product", None)
        product_id = self.product if product is None else derived_id("Product", product)
        shared = PlanTemplate(product_id=product_id, name=code, **settings)
        template_id = self.add(shared, f"{code} template")
        return self.add(Plan(plan_template_id=template_id, name=code, code=code, **more), code)

    def pricing(
        self, plan: str, aggregation: str, rows: Iterable[tuple[Any, Any, Any]], **more: Any
    ) -> str:
        """Price an aggregation by code; on the plan's template if `inherited` is set.

        It is a compound one if `compound` is set; `overage` are bands, too.
        """
        place = {"plan_id": derived_id("Plan", plan)}
        if more.pop("inherited", False):
            place = {"plan_template_id": derived_id("PlanTemplate", f"{plan} template")}
        overage = more.pop("overage", ())
        settings = {"start_date": LONG_AGO, "cumulative": True, **more}
        if more.pop("compound", False):
            place["compound_aggregation_id"] = derived_id("CompoundAggregation", aggregation)
        else:
            place["aggregation_id"] = derived_id("Aggregation", aggregation)
        entity = Pricing(
            pricing_bands=bands(*rows),
            overage_pricing_bands=bands(*overage),
            **place,
            **settings,
        )
        return self.add(entity, f"pricing {len(self.records)}")

    def group(self, code: str, plans: Iterable[str], **more: Any) -> str:
        made = self.add(PlanGroup(name=code, code=code, **{"currency": "USD", **more}), code)
        for plan in plans:
            link = PlanGroupLink(plan_group_id=made, plan_id=derived_id("Plan", plan))
            self.add(link, f"{code} {plan}")
        return made

    def counter(self, code: str, **more: Any) -> str:
        return self.add(Counter(name=code, code=code, **{"unit": "seat", **more}), code)

    def counter_pricing(
        self, plan: str, counter: str, rows: Iterable[tuple[Any, Any, Any]], **more: Any
    ) -> str:
        entity = CounterPricing(
            counter_id=derived_id("Counter", counter),
            plan_id=derived_id("Plan", plan),
            pricing_bands=bands(*rows),
            **{"start_date": LONG_AGO, "cumulative": True, **more},
        )
        return self.add(entity, f"counter pricing {len(self.records)}")

    def charge(self, account: str, start: str, end: str, **more: Any) -> str:
        """A charge for a service period of instants; its code is its number."""
        code = f"charge-{len(self.records)}"
        named = {"name": code, "code": code, "currency": "USD", "entity_type": "AD_HOC"}
        contract = more.pop("contract", None)
        entity = Charge(
            account_id=derived_id("Account", account),
            contract_id=contract and derived_id("Contract", contract),
            line_item_type="AD_HOC",
            service_period_start_date=instant(start),
            service_period_end_date=instant(end),
            **{**named, **more},
        )
        return self.add(entity, code)

    def commitment(self, account: str, **more: Any) -> str:
        """A commitment; it is called by its amount, account and contract."""
        contract, plan = more.pop("contract", None), more.pop("billing_plan", None)
        product = more.pop("fees_product", None)
        entity = Commitment(
            account_id=derived_id("Account", account),
            contract_id=contract and derived_id("Contract", contract),
            billing_plan_id=plan and derived_id("Plan", plan),
            fees_accounting_product_id=product and derived_id("Product", product),
            **{"currency": "USD", **more},
        )
        name = f"{entity.amount} of {account}"
        return self.add(entity, f"{name} in {contract}" if contract else name)

    def balance(self, account: str, code: str, **more: Any) -> str:
        """A balance, with money by the day from which on it counts."""
        paid = more.pop("paid", {})
        entity = Balance(
            account_id=derived_id("Account", account),
            name=code,
            code=code,
            **{"currency": "USD", **more},
        )
        made = self.add(entity, code)
        own = LedgerAccount(LedgerAccountType.BALANCE, made)
        self.movements[made] = [
            Movement(own, PostingKind.CREDIT, decimal(amount), instant(f"{day}T00:00:00Z"))
            for day, amount in paid.items()
        ]
        return made

    def adjust(self, account: str, counter: str, day: str, value: int) -> str:
        entity = CounterAdjustment(
            counter_id=derived_id("Counter", counter),
            account_id=derived_id("Account", account),
            date=date.fromisoformat(day),
            value=int(value),
        )
        return self.add(entity, f"adjustment {len(self.records)}")

    def account(self, code: str, plan: str | None = None, **more: Any) -> str:
        times = {name: more.pop(name) for name in ("start_date", "end_date") if name in more}
        parent = more.pop("parent", None)
        if parent is not None:
            more["parent_account_id"] = derived_id("Account", parent)
        entity = Account(name=code, code=code, email_address="a@example.com", **more)
        account_id = self.add(entity, code)
        if plan is not None:
            self.subscribe(code, plan, **times)
        return account_id

    def grouping_key(self, code: str, *, exclusive: bool) -> str:
        return self.add(BillGroupingKey(name=code, code=code, exclusive=exclusive), code)

    def contract(self, account: str, code: str, **more: Any) -> str:
        """A contract of the year 2026, under the code of a grouping key perhaps."""
        key = more.pop("grouping_key", None)
        days = {"start_date": date(2026, 1, 1), "end_date": date(2027, 1, 1)}
        entity = Contract(
            account_id=derived_id("Account", account),
            name=code,
            code=code,
            bill_grouping_key_id=key and derived_id("BillGroupingKey", key),
            **{**days, **more},
        )
        return self.add(entity, code)

    def subscribe(self, account: str, plan: str, **more: Any) -> str:
        """Put an account on a plan, or on the plan group of that code."""
        group_id = derived_id("PlanGroup", plan)
        on = {"plan_group_id": group_id} if group_id in self.records else None
        contract = more.pop("contract", None)
        entity = AccountPlan(
            account_id=derived_id("Account", account),
            **(on or {"plan_id": derived_id("Plan", plan)}),
            contract_id=contract and derived_id("Contract", contract),
            **{"start_date": LONG_AGO, **more},
        )
        return self.add(entity, f"account plan {len(self.records)}")

    def use(
        self,
        account: str,
        ts: str,
        n: Any = None,
        s: str | None = None,
        r: str | None = None,
        ets: str | None = None,
    ) -> None:
        self._uids += 1
        self.db.execute(
            "INSERT INTO m VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                f"u{self._uids:06}",
                derived_id("Account", account),
                instant(ts).replace(tzinfo=None),
                None if ets is None else instant(ets).replace(tzinfo=None),
                None if n is None else decimal(n),
                s,
                r,
            ],
        )

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.records.values())

    def fold(self, *scopes: aggregate.AggregationScope) -> list[MeterUsage]:
        configuration = self.configuration
        [(meter, aggregations)] = aggregate.by_meter(configuration)
        folds = aggregate.rollups(meter.entity, aggregations, COLUMNS)
        return [
            each
            for scope in scopes
            for each in read_usage(self.db, "m", meter.entity, folds, scope)
        ]

    def usage(self, terms: BillingTerms) -> BilledUsage:
        parts = [aggregate.windows(*each) for each in terms.windows.get(self.meter, ())]
        accounts = terms.account_terms_of if terms.restricted else None
        scopes = [aggregate.whole(terms.period, accounts), *parts]
        custom, missing = self.custom(scopes)
        usage = BilledUsage({self.meter: [*self.fold(*scopes), *custom]}, missing=missing)
        return add_compounds(
            usage, terms.configuration, {}, terms.compound_windows(), terms.usage_owners
        )

    def custom(
        self, scopes: Iterable[aggregate.AggregationScope]
    ) -> tuple[list[MeterUsage], list[MissingQuantity]]:
        """What aggregations with SQL of their own give, and for whom they give nothing."""
        configuration, found, missing = self.configuration, [], []
        own = [e for e in configuration.all(Aggregation) if e.entity.custom_sql]
        meter = configuration.get(Meter, self.meter).entity
        with Sandbox() as sandbox:
            for scope in scopes if own else ():
                columns = {*COLUMNS, "uid", "ts", "ets"}
                source = scope.reading("m", meter, columns)
                query = aggregate.measurements(source, meter, columns, None, scope)
                for (name, start, end, _), rows in groups(self.db, *query, aggregate.KEYS):
                    account, selection = scope.account_of(name)
                    sandbox.put(rows)
                    period = Period(aware(start), aware(end))
                    for each in own:
                        if not scope.folds(each.id):
                            continue
                        used = MeterUsage(account, period, rows.num_rows, selection=selection)
                        try:
                            value = sandbox.value(each.entity.custom_sql or "", each.id)
                        except InvalidSql as error:
                            detail = f"{each.entity.code}: {error}"
                            missing.append(
                                MissingQuantity(account, each.id, period, None, detail, selection)
                            )
                            continue
                        if value is not None:
                            made = Quantity.of(account, each, period, value, rows.num_rows)
                            used.quantities.append(made._replace(selection=selection))
                        found.append(used)
        return found, missing

    def terms(self, month: str) -> BillingTerms:
        return billing_terms(self.configuration, BillSelection(Month.parse(month)))

    def made(self, month: str, billed: Iterable[str] = ()) -> list[Bill | Failure]:
        terms = self.terms(month)
        provenance = Provenance(SNAPSHOT, "1.0")
        bill_date, monthly = Month.parse(month).after, BillingFrequency.MONTHLY
        keys = {BillIdentity(account_id, bill_date, monthly, 1) for account_id in billed}
        made = list(make_bills(terms, self.usage(terms), provenance, keys, self.movements))
        note_draws(self.movements, self.configuration, made)
        return made

    def bills(self, month: str) -> list[Bill]:
        made = self.made(month)
        assert not [each for each in made if isinstance(each, Failure)], made
        return [each for each in made if isinstance(each, Bill)]

    def unpriced(self, month: str) -> list[Unpriced]:
        terms = self.terms(month)
        return list(unpriced_usage(terms, self.usage(terms).by_meter))

    def without(self, month: str, told: Collection[str]) -> list[NoBill]:
        return list(without_bill(self.terms(month), told))

    def period(self, month: str) -> Period:
        return self.terms(month).period
