"""Random organizations to be billed, with only the features that are asked for.

Entities are shaped as the wire shows them and obey the contract's own rules; ids are UUIDs made of kind and code.
"""

import random
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from tests.billing_oracle.periods import DAY, Clock, zone_of
from tests.billing_oracle.world import World

Entity = dict[str, Any]

FEATURES: Final = frozenset(
    {
        "advance",  # flags of charges in advance, on all levels of their cascade
        "balances",  # with transactions
        "charges",  # ad hoc charges, and fees of balances
        "commitments",  # with fees by plan or by dates
        "compounds",
        "consolidation",
        "contracts",  # grouping keys, period limits, usage filters
        "counters",
        "credits",  # pricings of the credit types
        "currencies",  # several, with rates
        "defaults",  # default values of aggregations
        "draw_order",  # creditApplicationOrder
        "empty_bills",  # suppressed
        "epochs",  # of the organization, of accounts and account plans
        "frequencies",  # all four, with intervals; rarely one without billing periods
        "groups",  # plan groups
        "hierarchy",  # parents and children in three modes
        "minimums",
        "negatives",  # negative usage and charges
        "nth_bills",  # standingChargeInterval, billingInterval, and their offsets
        "overage",  # surcharges, separate overage, overdraft
        "plan_changes",  # a plan ends, another follows in mid-period
        "pricing_changes",  # a pricing ends, another follows
        "rollover",
        "roundings",  # of currencies and aggregations
        "segments",
        "spans",  # tiersSpanPlan
        "times",  # starts and ends at any time of the day
        "zones",
    }
)
FIRST: Final = date(2022, 1, 1)
_NAMES: Final = uuid.UUID(int=0)
_ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney")
_MODES: Final = ("PARENT_SUMMARY", "PARENT_BREAKDOWN", "CHILD")
_ROUNDINGS: Final = ("UP", "DOWN", "CEILING", "FLOOR", "HALF_UP", "HALF_DOWN", "HALF_EVEN")
# How often a frequency is one without billing periods.
_WITHOUT_PERIODS = 0.1
_REDUCERS: Final = ("SUM", "COUNT", "MAX", "MIN", "LATEST", "MEAN")
_DRAWN: Final = (
    *("USAGE", "STANDING_CHARGE", "MINIMUM_SPEND"),
    *("COUNTER_RUNNING_TOTAL_CHARGE", "COUNTER_ADJUSTMENT_DEBIT"),
)


def random_world(
    seed: int, features: Collection[str] = FEATURES, *, days: int = 120, rows: int = 40
) -> World:
    """One organization by a seed.

    Args:
        seed: The same seed, features and sizes give the same organization.
        features: Which features may occur; without any: monthly plans, usage and standing charges.
        days: How many days from 2022-01-01 have measurements and changes.
        rows: How many measurements there are.
    """
    unknown = set(features) - FEATURES
    if unknown:
        raise ValueError(f"no feature is called {', '.join(sorted(unknown))}")
    world = _Builder(random.Random(seed), frozenset(features), days).build(rows)
    return replace(
        world, name=f"random_world({seed}, {sorted(features)}, days={days}, rows={rows})"
    )


def worlds(features: Collection[str] = FEATURES, **sizes: int) -> Any:
    """A Hypothesis strategy of organizations."""
    from hypothesis import strategies as st

    given = {name: st.just(size) for name, size in sizes.items()}
    return st.builds(
        random_world, st.integers(0, 2**32 - 1), st.just(tuple(sorted(features))), **given
    )


def id_of(kind: str, code: str) -> str:
    return str(uuid.uuid5(_NAMES, f"{kind}/{code}"))


class _Builder:
    """Draws entity after entity; each method adds those of one kind."""

    def __init__(self, rng: random.Random, features: frozenset[str], days: int) -> None:
        self.rng, self.features, self.days = rng, features, days
        self.rows: dict[str, list[Entity]] = {}
        self.organization: Entity = {}
        self.clock = Clock(UTC)

    def build(self, rows: int) -> World:
        self._organization()
        self._catalog()
        self._plans()
        self._accounts()
        self._account_plans()
        self._counters()
        self._sources()
        self._charges()
        self._measurements(rows)
        found: Mapping[str, Any] = self.rows
        return World(organization=self.organization, **found)

    # What is drawn.

    def has(self, feature: str, share: float = 0.5) -> bool:
        return feature in self.features and self.rng.random() < share

    def pick(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def money(self, limit: int) -> Decimal:
        return Decimal(self.rng.randrange(0, limit * 100)) / 100

    def flag(self) -> bool | None:
        return self.pick(None, True, False) if "advance" in self.features else None

    def day(self, first: int = 0, last: int | None = None) -> date:
        return FIRST + self.rng.randint(first, self.days if last is None else last) * DAY

    def moment(self, day: date) -> str:
        """A local midnight, or with `times` any time of that day, also its last second."""
        start = self.clock.midnight(day)
        if self.has("times"):
            seconds = self.pick(43_200, 86_399, self.rng.randrange(86_400))
            start += timedelta(seconds=seconds)
        return text_of(start)

    def currency(self) -> str:
        return self.pick("USD", "EUR", "JPY") if self.has("currencies") else "USD"

    def add(self, kind: str, code: str, **fields: Any) -> Entity:
        """A new entity; fields that are None are left out, and names that its kind does not have."""
        names = {name: code for name in ("code", "name") if name not in NAMELESS.get(kind, ())}
        known = {name: value for name, value in fields.items() if value is not None}
        row = {"id": id_of(kind, code), **names, **known}
        self.rows.setdefault(kind, []).append(row)
        return row

    # The organization and its catalog.

    def _organization(self) -> None:
        zone = self.pick(*_ZONES) if "zones" in self.features else "UTC"
        self.clock = Clock(zone_of(zone))
        self.organization = {"timezone": zone, "currency": "USD", "daysBeforeBillDue": 30}
        if "epochs" in self.features:
            self.organization |= {
                "dayEpoch": "2022-01-01",
                "weekEpoch": f"2022-01-0{self.rng.randint(1, 7)}",
                "monthEpoch": f"2021-12-{self.pick(1, 15, 28, 31):02}",
                "yearEpoch": f"2020-{self.pick(1, 2, 7):02}-{self.pick(1, 29):02}",
            }
        for name in ("standingCharge", "minimumSpend", "commitmentFee"):
            self.organization[f"{name}BillInAdvance"] = bool(self.flag())
        self.organization["suppressedEmptyBills"] = self.has("empty_bills")
        self.organization["consolidateBills"] = self.has("consolidation")
        self._money()

    def _money(self) -> None:
        if self.has("draw_order"):
            self.organization["creditApplicationOrder"] = self._draw_order()
        rates = {("EUR", "USD"): "1.1", ("JPY", "USD"): "0.0073", ("JPY", "EUR"): "0.0066"}
        if "currencies" in self.features:
            self.organization["currencyConversions"] = [
                row
                for (source, target), rate in rates.items()
                for row in (_rate(source, target, rate), _rate(target, source, _INVERSE[rate]))
            ]
        for code, places in (("USD", 2), ("EUR", 2), ("JPY", 0)):
            mode = self.pick(*_ROUNDINGS) if "roundings" in self.features else "HALF_UP"
            self.add("currencies", code, maxDecimalPlaces=places, roundingMode=mode)

    def _draw_order(self) -> list[str]:
        both = ["PREPAYMENT", "BALANCE"]
        return list(self.pick(both, both[::-1], both[:1], both[1:]))

    def _catalog(self) -> None:
        for number in (1, 2):
            product = self.add("products", f"product{number}")
            meter = self.add(
                "meters",
                f"meter{number}",
                productId=product["id"],
                dataFields=DATA_FIELDS,
                derivedFields=[],
            )
            for letter in "ab"[: self.rng.randint(1, 2)]:
                self._aggregation(f"agg_{number}{letter}", meter)
        if self.has("compounds", 0.8):
            self._compound()

    def _aggregation(self, code: str, meter: Entity) -> None:
        rounding = self.pick("UP", "DOWN", "NEAREST", "NONE") if self.has("roundings") else "NONE"
        more: Entity = {}
        if self.has("segments"):
            more = {"segmentedFields": ["r"], "segments": [{"r": "eu"}, {"r": "*"}]}
        kind = self.pick(*_REDUCERS, "UNIQUE")
        self.add(
            "aggregations",
            code,
            meterId=meter["id"],
            aggregation=kind,
            targetField="s" if kind == "UNIQUE" else "n",
            quantityPerUnit=self.pick(1, 1, 10) if rounding != "NONE" else 1,
            rounding=rounding,
            unit="unit",
            defaultValue=self.pick(0, 3) if self.has("defaults") else None,
            **more,
        )

    def _compound(self) -> None:
        plain = [row for row in self.rows["aggregations"] if "segments" not in row]
        if plain:
            code = plain[0]["code"]
            # Those of one product go together.
            other = [row for row in plain if row["meterId"] == plain[0]["meterId"]][-1]["code"]
            meters = {row["id"]: row for row in self.rows["meters"]}
            self.add(
                "compounds",
                "compound",
                calculation=self.pick(
                    f"aggregation.{code} * 2 + 1",
                    f"(aggregation.{code} - 5) / 4",
                    f"aggregation.{code} + aggregation.{other}",
                ),
                evaluateNullAggregations=self.pick(None, None, True),
                productId=meters[plain[0]["meterId"]]["productId"],
                quantityPerUnit=1,
                rounding=self.pick("UP", "DOWN", "NEAREST") if self.has("roundings") else "NONE",
                unit="unit",
            )

    # Plans and their prices.

    def _plans(self) -> None:
        together = {letter: self._frequency() for letter in "xy"}
        for number, product in enumerate(self.rows["products"], 1):
            for letter in "xy":
                code = f"plan{number}{letter}"
                # The plans of a group have one frequency.
                frequency = together[letter] if "groups" in self.features else self._frequency()
                template = self._template(f"template-{code}", product, frequency)
                plan = self._plan(code, template)
                self._pricings(template, plan, product)
        if "groups" in self.features:
            self._groups()

    def _frequency(self) -> tuple[str, int]:
        if "frequencies" not in self.features:
            return "MONTHLY", 1
        if self.rng.random() < _WITHOUT_PERIODS:
            return self.pick("AD_HOC", "MIXED"), 1
        pairs = (("MONTHLY", 1), ("MONTHLY", 3), ("WEEKLY", 1), ("WEEKLY", 2), ("DAILY", 10))
        found: tuple[str, int] = self.pick(*pairs, ("ANNUALLY", 1))
        return found

    def _template(self, code: str, product: Entity, frequency: tuple[str, int]) -> Entity:
        nth = self.has("nth_bills")
        return self.add(
            "plan_templates",
            code,
            productId=product["id"],
            currency=self.currency(),
            billFrequency=frequency[0],
            billFrequencyInterval=frequency[1],
            standingCharge=self.money(100),
            standingChargeInterval=self.pick(2, 3) if nth else None,
            standingChargeOffset=self.pick(0, 1, 2, 3) if nth else None,
            standingChargeBillInAdvance=self.flag(),
            minimumSpend=self.money(300) if self.has("minimums") else None,
            minimumSpendBillInAdvance=self.flag(),
        )

    def _plan(self, code: str, template: Entity) -> Entity:
        return self.add(
            "plans",
            code,
            planTemplateId=template["id"],
            standingCharge=self.money(50) if self.rng.random() < 0.3 else None,
            standingChargeBillInAdvance=self.flag(),
            minimumSpend=self.money(300) if self.has("minimums", 0.3) else None,
            minimumSpendBillInAdvance=self.flag(),
        )

    def _pricings(self, template: Entity, plan: Entity, product: Entity) -> None:
        meters = {row["id"]: row for row in self.rows["meters"]}
        for row in self.rows["aggregations"]:
            if meters[row["meterId"]]["productId"] == product["id"]:
                for segment in row.get("segments") or [None]:
                    metric = {"aggregationId": row["id"], "segment": segment}
                    self._metric(template, plan, row["code"], metric)
        for row in self.rows.get("compounds", ()):
            if row["productId"] == product["id"]:
                metric = {"compoundAggregationId": row["id"]}
                self._metric(template, plan, row["code"], metric)

    def _metric(self, template: Entity, plan: Entity, code: str, metric: Entity) -> None:
        """A pricing of the template, of the plan, of both (one hides the other), or one after another."""
        names = "".join((metric.get("segment") or {}).values()).replace("*", "any")
        code = f"{plan['code']}-{code}-{names}".strip("-")
        owners = self.pick(("planTemplateId",), ("planId",), ("planId", "planTemplateId"))
        for owner in owners:
            identifier = {"planId": plan["id"], "planTemplateId": template["id"]}[owner]
            shared = {**metric, owner: identifier}
            change = self.day(20, 100) if self.has("pricing_changes") else None
            end = self.moment(change) if change else None
            self._pricing(f"{code}-{owner}", {**shared, "startDate": LONG_AGO, "endDate": end})
            if end:
                self._pricing(f"{code}-{owner}-2", {**shared, "startDate": end})

    def _pricing(self, code: str, fields: Entity) -> None:
        kind = "DEBIT"
        if self.has("credits", 0.3):
            kind = self.pick("PRODUCT_CREDIT", "GLOBAL_CREDIT")
        debit = kind == "DEBIT"
        spans = self.has("spans", 0.3)
        cumulative = self.rng.random() < 0.6
        minimum = debit and self.has("minimums", 0.3)
        over = cumulative and not spans and self.has("overage")
        self.add(
            "pricings",
            code,
            type=kind,
            cumulative=cumulative,
            tiersSpanPlan=spans,
            pricingBands=self._bands(),
            overagePricingBands=self._bands() if over else None,
            minimumSpend=self.money(100) if minimum else None,
            minimumSpendBillInAdvance=self.flag() if minimum else None,
            **fields,
        )

    def _bands(self) -> list[Entity]:
        limits = [0, *sorted(self.rng.sample(range(5, 200), self.rng.randint(0, 2)))]
        return [
            {
                "lowerLimit": limit,
                "fixedPrice": self.pick(0, 0, self.money(5)),
                "unitPrice": self._unit_price(),
            }
            for limit in limits
        ]

    def _unit_price(self) -> Decimal:
        price = Decimal(self.rng.randrange(0, 2000)) / 1000
        return -price if self.has("negatives", 0.05) else price

    def _groups(self) -> None:
        """Two of them, each with a plan of both products."""
        first, second, third, fourth = self.rows["plans"]
        self._group("group", [first, third])
        self._group("group2", [second, fourth])

    def _group(self, code: str, plans: list[Entity]) -> None:
        standing = self.money(80) if self.rng.random() < 0.5 else None
        group = self.add(
            "plan_groups",
            code,
            currency=self.currency(),
            standingCharge=standing,
            standingChargeBillInAdvance=self.flag(),
            minimumSpend=self.money(500) if self.has("minimums", 0.7) else None,
            minimumSpendBillInAdvance=self.flag(),
        )
        for plan in plans:
            self.add(
                "plan_group_links",
                f"link-{plan['code']}",
                planGroupId=group["id"],
                planId=plan["id"],
            )

    # Accounts and what they have.

    def _accounts(self) -> None:
        for number in (1, 2):
            self._account(f"account{number}", None)
        if "hierarchy" in self.features:
            for number in (1, 2):
                self._account(f"child{number}", self.rows["accounts"][0])

    def _account(self, code: str, parent: Entity | None) -> None:
        in_hierarchy = "hierarchy" in self.features and code != "account2"
        order = None if in_hierarchy or not self.has("draw_order") else self._draw_order()
        self.add(
            "accounts",
            code,
            emailAddress=f"{code}@example.com",
            parentAccountId=parent["id"] if parent else None,
            currency=self.currency() if self.has("currencies") else None,
            billEpoch=self._bill_epoch(0.2),
            creditApplicationOrder=order,
        )

    def _bill_epoch(self, share: float) -> str | None:
        return self.day(0, 70).isoformat() if self.has("epochs", share) else None

    def _account_plans(self) -> None:
        for account in self.rows["accounts"]:
            is_child = "parentAccountId" in account
            if is_child and self.rng.random() < 0.6:
                continue
            contract = self._contract(account) if self.has("contracts", 0.7) else None
            if "groups" in self.features and self.rng.random() < 0.5:
                first, second = self.rng.sample(self.rows["plan_groups"], 2)
                plan = {"planId": self.pick(*self.rows["plans"])["id"]}
                after = self.pick({"planGroupId": second["id"]}, plan)
                self._chain(account, contract, [{"planGroupId": first["id"]}, after])
            else:
                first = self.rng.sample((0, 1), 2)
                second = self.rng.sample((2, 3), 2)
                for pair in (first, second)[: self.rng.randint(1, 2)]:
                    plans = [{"planId": self.rows["plans"][number]["id"]} for number in pair]
                    self._chain(account, contract, plans)

    def _chain(self, account: Entity, contract: Entity | None, plans: list[Entity]) -> None:
        """One plan, or with `plan_changes` another one after it."""
        start = self.moment(self.day(0, 20))
        change = self.day(25, 100) if self.has("plan_changes") else None
        end = self.moment(change) if change else None
        self._account_plan(account, contract, {**plans[0], "startDate": start, "endDate": end})
        if end and len(plans) > 1:
            later = contract if self.rng.random() < 0.7 else None
            self._account_plan(account, later, {**plans[1], "startDate": end})

    def _account_plan(self, account: Entity, contract: Entity | None, fields: Entity) -> None:
        number = len(self.rows.get("account_plans", ())) + 1
        mode = self.pick(*_MODES) if "hierarchy" in self.features else None
        self.add(
            "account_plans",
            f"account-plan{number}",
            accountId=account["id"],
            contractId=contract["id"] if contract else None,
            billEpoch=self._bill_epoch(0.3),
            childBillingMode=mode,
            **fields,
        )

    def _contract(self, account: Entity) -> Entity:
        code = f"contract-{account['code']}"
        key = None
        if self.rng.random() < 0.6:
            key = self.add(
                "grouping_keys", f"key_{account['code']}", exclusive=self.pick(True, False)
            )
        filters = [
            {"dimensionCode": "s", "mode": self.pick("INCLUDE", "EXCLUDE"), "value": value}
            for value in self.rng.sample(("one", "two"), self.rng.randint(0, 2))
        ]
        return self.add(
            "contracts",
            code,
            accountId=account["id"],
            startDate=self.day(0, 30).isoformat(),
            endDate=self.day(60, 200).isoformat(),
            applyContractPeriodLimits=self.pick(True, False),
            usageFilters=filters,
            billGroupingKeyId=key["id"] if key else None,
        )

    def _counters(self) -> None:
        if "counters" not in self.features:
            return
        counter = self.add("counters", "seats", unit="seat")
        for plan in self.rows["plans"]:
            change = self.day(20, 100) if self.has("pricing_changes") else None
            end = self.moment(change) if change else None
            self._counter_pricing(counter, plan, "", startDate=LONG_AGO, endDate=end)
            if end:
                self._counter_pricing(counter, plan, "-2", startDate=end)
        for account in self.rows["accounts"]:
            for day in self._some_days(4):
                self.add(
                    "counter_adjustments",
                    f"{account['code']}-{day}",
                    counterId=counter["id"],
                    accountId=account["id"],
                    date=day.isoformat(),
                    value=self.rng.randrange(0, 40),
                )

    def _counter_pricing(self, counter: Entity, plan: Entity, suffix: str, **times: Any) -> None:
        owner = self.pick("planId", "planTemplateId")
        identifier = plan["id"] if owner == "planId" else plan["planTemplateId"]
        self.add(
            "counter_pricings",
            f"seats-{plan['code']}{suffix}",
            counterId=counter["id"],
            cumulative=self.pick(True, False),
            pricingBands=self._bands(),
            runningTotalBillInAdvance=self.flag(),
            proRateRunningTotal=self.pick(None, True, False),
            proRateAdjustmentDebit=self.pick(None, True, False),
            proRateAdjustmentCredit=self.pick(None, True, False),
            **times,
            **{owner: identifier},
        )

    def _some_days(self, count: int) -> list[date]:
        return sorted({self.day() for _ in range(self.rng.randint(0, count))})

    # Commitments, balances, charges.

    def _sources(self) -> None:
        for account in self.rows["accounts"]:
            for number in range(self.rng.randint(0, 2)):
                if "commitments" in self.features:
                    self._commitment(account, f"commitment-{account['code']}-{number}")
                if "balances" in self.features:
                    self._balance(account, f"balance-{account['code']}-{number}")

    def _limits(self) -> Entity:
        """What a source is for: some types of lines, some products."""
        types = self.rng.sample(_DRAWN, self.rng.randint(1, 3)) if self.rng.random() < 0.4 else None
        products = [self.pick(*self.rows["products"])["id"]] if self.rng.random() < 0.3 else None
        return {"lineItemTypes": types, "productIds": products}

    def _own_contract(self, account: Entity) -> str | None:
        """A contract of the account, sometimes."""
        own = [
            row["id"] for row in self.rows.get("contracts", ()) if row["accountId"] == account["id"]
        ]
        return self.pick(None, *own) if own else None

    def _surcharge(self) -> int | None:
        return self.pick(10, 25, -10) if self.has("overage") else None

    def _commitment(self, account: Entity, code: str) -> None:
        start = self.day(0, 60)
        end = start + self.rng.randint(10, 100) * DAY
        surcharge = self._surcharge()
        separate = surcharge is None and self.has("overage", 0.7)
        self.add(
            "commitments",
            code,
            accountId=account["id"],
            currency=self.currency(),
            amount=self.money(400) + 1,
            startDate=start.isoformat(),
            endDate=end.isoformat(),
            contractId=self._own_contract(account),
            overageSurchargePercent=surcharge,
            separateOverageUsage=separate or None,
            **self._limits(),
            **(self._fee_dates() if self.rng.random() < 0.3 else self._fees_with_plan()),
        )

    def _fee_dates(self) -> Entity:
        return {
            "feeDates": [
                {
                    "date": day.isoformat(),
                    "amount": self.money(100) + 1,
                    "servicePeriodStartDate": text_of(self.clock.midnight(day)),
                    "servicePeriodEndDate": text_of(self.clock.midnight(day + 30 * DAY)),
                }
                for day in self._some_days(3)
            ]
        }

    def _fees_with_plan(self) -> Entity:
        nth = self.has("nth_bills")
        return {
            "billingPlanId": self.pick(*self.rows["plans"])["id"],
            "amountPrePaid": self.pick(None, Decimal("0.33")),
            "amountFirstBill": self.pick(None, Decimal("0.5")),
            "billingInterval": self.pick(2, 3) if nth else None,
            "billingOffset": self.pick(0, 1, 2) if nth else None,
            "commitmentFeeBillInAdvance": self.flag(),
            "billEpoch": self._bill_epoch(0.2),
        }

    def _balance(self, account: Entity, code: str) -> None:
        start = self.day(0, 60)
        end = start + self.rng.randint(10, 60) * DAY
        rolls = self.has("rollover")
        self.add(
            "balances",
            code,
            accountId=account["id"],
            currency=self.currency(),
            startDate=self.moment(start),
            endDate=self.moment(end),
            rolloverEndDate=self.moment(end + 30 * DAY) if rolls else None,
            rolloverAmount=self.money(50) if rolls and self.rng.random() < 0.6 else None,
            contractId=self._own_contract(account),
            overageSurchargePercent=self._surcharge(),
            allowOverdraft=self.has("overage", 0.2) or None,
            transactions=[self._transaction() for _ in range(self.rng.randint(0, 3))],
            **self._limits(),
        )

    def _transaction(self) -> Entity:
        amount = self.money(200)
        applied = {"appliedDate": self.moment(self.day())} if self.rng.random() < 0.5 else {}
        sign = -1 if self.has("negatives", 0.2) else 1
        return {"amount": sign * amount, **applied}

    def _charges(self) -> None:
        if "charges" not in self.features:
            return
        for account in self.rows["accounts"]:
            for number in range(self.rng.randint(0, 3)):
                self._charge(account, f"charge-{account['code']}-{number}")

    def _charge(self, account: Entity, code: str) -> None:
        day = self.day()
        own = [row for row in self.rows.get("balances", ()) if row["accountId"] == account["id"]]
        balance = own[0] if own and self.rng.random() < 0.3 else None
        sign = -1 if self.has("negatives", 0.3) else 1
        priced = self.rng.random() < 0.3
        self.add(
            "charges",
            code,
            accountId=account["id"],
            currency=self.currency(),
            entityType="BALANCE" if balance else "AD_HOC",
            lineItemType="BALANCE_FEE" if balance else "AD_HOC",
            entityId=balance["id"] if balance else None,
            contractId=self._own_contract(account),
            billDate=self._charge_date(day),
            amount=None if priced else sign * self.money(50),
            units=self.rng.randint(1, 9) if priced else None,
            unitPrice=sign * self.money(5) if priced else None,
            servicePeriodStartDate=self.moment(day),
            # A moment of the next day may come before one of a day, where clocks change.
            servicePeriodEndDate=self.moment(day + self.rng.randint(2, 41) * DAY),
        )

    def _charge_date(self, day: date) -> str | None:
        found: str | None = self.pick(None, day.isoformat(), day.replace(day=1).isoformat())
        return found

    # Usage.

    def _measurements(self, rows: int) -> None:
        codes = [row["code"] for row in self.rows["accounts"]]
        meters = [row["code"] for row in self.rows["meters"]]
        self.rows["measurements"] = []
        for number in range(rows):
            ts = datetime(2022, 1, 1, tzinfo=UTC)
            ts += timedelta(minutes=self.rng.randrange(self.days * 1440))
            value = Decimal(self.rng.randrange(0, 10_000)) / self.pick(1, 10, 100, 1000)
            self.rows["measurements"].append(
                {
                    "uid": f"u{number:05}",
                    "meter": self.pick(*meters),
                    "account": self.pick(*codes),
                    "ts": text_of(ts),
                    "measure": {"n": -value if self.has("negatives", 0.1) else value},
                    "what": {"s": self.pick("one", "two", "three")},
                    "where": {"r": self.pick("eu", "us")},
                }
            )


# Entities of these kinds have no name, or neither name nor code.
NAMELESS: Final = {
    **dict.fromkeys(("account_plans", "counter_pricings", "pricings"), ("name",)),
    **dict.fromkeys(("commitments", "counter_adjustments", "plan_group_links"), ("code", "name")),
}
DATA_FIELDS: Final = [
    {"category": "MEASURE", "code": "n", "name": "n", "unit": "unit"},
    {"category": "WHAT", "code": "s", "name": "s"},
    {"category": "WHERE", "code": "r", "name": "r"},
]
LONG_AGO: Final = "2020-01-01T00:00:00Z"
_INVERSE: Final = {"1.1": "0.9", "0.0073": "137", "0.0066": "152"}


def _rate(source: str, target: str, rate: str) -> Entity:
    return {"from": source, "to": target, "multiplier": Decimal(rate)}


def text_of(moment: datetime) -> str:
    """An instant as the wire shows it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
