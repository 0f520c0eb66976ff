"""A shop with one product, meter, aggregation, plan and account: an example changes what it is about."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.billing_oracle import Bill, Billing, World, bills
from tests.billing_oracle.world import Row

Entity = dict[str, Any]
START = "2022-01-01T00:00:00Z"


def bands(*rows: tuple[Any, Any, Any]) -> list[Entity]:
    """Bands from (lower limit, fixed price, unit price)."""
    names = ("lowerLimit", "fixedPrice", "unitPrice")
    return [dict(zip(names, map(str, row), strict=True)) for row in rows]


def used(day: str, n: Any, account: str = "acme", **more: str) -> Entity:
    """One measurement of a local or full date; `s` and `r` are its texts."""
    ts = day if "T" in day else f"{day}T12:00:00Z"
    texts = {
        name: {code: more[code]} for name, code in (("what", "s"), ("where", "r")) if code in more
    }
    uid = f"{account}-{ts}-{n}-{sorted(more.items())}"
    return {"uid": uid, "meter": "m", "account": account, "ts": ts, "measure": {"n": n}, **texts}


def shop(*measurements: Row, **changes: Any) -> World:
    """The shop: a monthly plan in USD, 1 per unit, no standing charge, on one account from 2022-01-01.

    A change of `organization`, `template`, `plan`, `account`, `account_plan`, `aggregation` or `pricing`
    sets fields of the only one that there is; `plans` and so on are further entities.
    """
    rows = {kind: base | changes.pop(kind, {}) for kind, base in BASES.items()}
    known: dict[str, Any] = {KINDS[kind]: [row] for kind, row in rows.items() if kind in KINDS}
    world = World(
        organization=rows["organization"],
        products=[{"id": "product", "code": "product"}],
        meters=[{"id": "meter", "code": "m", "productId": "product"}],
        measurements=measurements,
        **known,
    )
    more: dict[str, Any] = {
        kind: [*getattr(world, kind), *entities] for kind, entities in changes.items()
    }
    return replace(world, **more)


BASES: dict[str, Entity] = {
    "organization": {"timezone": "UTC", "currency": "USD"},
    "account": {"id": "acme", "code": "acme"},
    "aggregation": {
        "id": "agg",
        "code": "gb",
        "meterId": "meter",
        "targetField": "n",
        "aggregation": "SUM",
        "quantityPerUnit": 1,
        "rounding": "NONE",
    },
    "template": {
        "id": "template",
        "code": "template",
        "productId": "product",
        "currency": "USD",
        "billFrequency": "MONTHLY",
        "standingCharge": 0,
    },
    "plan": {"id": "plan", "code": "plan", "planTemplateId": "template"},
    "pricing": {
        "id": "price",
        "code": "price",
        "planId": "plan",
        "aggregationId": "agg",
        "startDate": START,
        "cumulative": True,
        "pricingBands": bands((0, 0, 1)),
    },
    "account_plan": {"id": "ap", "accountId": "acme", "planId": "plan", "startDate": START},
}
KINDS = {
    "account": "accounts",
    "aggregation": "aggregations",
    "template": "plan_templates",
    "plan": "plans",
    "pricing": "pricings",
    "account_plan": "account_plans",
}


def billing(world: World, after: str = "2022-04-01", first_day: str = "2000-01-01") -> Billing:
    return bills(world, date.fromisoformat(first_day), date.fromisoformat(after))


def dates(world: World, after: str = "2022-07-01", account: str = "acme") -> list[str]:
    """The dates of the bills of an account."""
    return [str(bill.date) for bill in billing(world, after).bills if bill.account_code == account]


def bill_of(world: World, when: str, account: str = "acme", **of: Any) -> Bill:
    """The one bill of a date, or the one of several with such attributes."""
    found = [
        bill
        for bill in billing(world, when).bills
        if (str(bill.date), bill.account_code) == (when, account)
        and all(getattr(bill, name) == value for name, value in of.items())
    ]
    assert len(found) == 1, found
    return found[0]


def lines(world: World, when: str, account: str = "acme", **of: Any) -> list[tuple[str, str]]:
    """Type and amount of each line of a bill."""
    found = bill_of(world, when, account, **of)
    return [(line.type, str(line.converted_subtotal)) for line in found.lines]


def amount(text: str) -> Decimal:
    return Decimal(text)


def number(value: Any) -> Fraction:
    return Fraction(str(value))
