"""Bills without Python: each file of `bills/` is an organization, its usage, and what it is billed.

A file is about a `month`, or about `months` that are billed one after the other. A bill and a line are compared in what the file says about them; every one has to be there.
"""

import tomllib
from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest

from meterlake.model.bills.bill import Bill
from meterlake.model.catalog.catalog import Product
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import format_instant
from tests.billing_world import World, instant

CASES = sorted(Path(__file__).parent.glob("bills/*.toml"))


def metric(line):
    """Which of the members that name what is charged a line has."""
    names = ("aggregationId", "compoundAggregationId", "meterId")
    return [name for name in names if name in line.to_wire()]


# What bills of contracts are grouped by, as the files name it.
GROUPS = {
    **{derived_id("Contract", code): code for code in ("first", "limited")},
    derived_id("BillGroupingKey", "shared"): "shared",
}

# Commitments by their ids.
COMMITMENTS = {
    derived_id("Commitment", name): name
    for name in ("520 of acme", "47 of acme", "1000 of dated", "1000 of dated in first")
}


LINE = {
    "type": lambda line: str(line.type),
    "description": lambda line: line.description,
    "quantity": lambda line: line.quantity,
    "units": lambda line: line.units,
    "unit": lambda line: line.unit,
    "currency": lambda line: line.currency,
    "subtotal": lambda line: line.subtotal,
    "rate": lambda line: line.conversion_rate,
    "converted": lambda line: line.converted_subtotal,
    "average": lambda line: line.average_unit_price,
    "bands": lambda line: [[band.units, band.subtotal] for band in line.bands],
    "start": lambda line: format_instant(line.service_period.start),
    "end": lambda line: format_instant(line.service_period.end),
    "metric": metric,
    "contract": lambda line: GROUPS.get(line.members.get("contractId")),
    "commitment": lambda line: COMMITMENTS.get(line.members.get("commitmentId")),
    "accounting_product": lambda line: line.accounting_product and line.accounting_product.code,
    "child": lambda line: line.members.get("childAccountCode", ""),
    "segment": lambda line: dict(line.segment or ()),
    "days": lambda line: [
        each
        for each in (line.made_from.active_days, line.made_from.period_days)
        if each is not None
    ],
}

BILL = {
    "bill_date": lambda bill: str(bill.bill_date),
    "start": lambda bill: str(bill.start_date),
    "frequency": lambda bill: str(bill.billing_frequency),
    "group": lambda bill: GROUPS.get(bill.grouping_key, ""),
    "interval": lambda bill: Decimal(bill.bill_frequency_interval),
    "due": lambda bill: str(bill.due_date),
}


def read(path):
    with path.open("rb") as file:
        return typed(tomllib.load(file, parse_float=Decimal))


def typed(value):
    """The same with every number as Decimal."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return value


def built(case):
    world = World(**case.get("organization", {}))
    for each in case.get("currency", ()):
        world.currency(each["code"], int(each["places"]), each.get("mode", "HALF_UP"))
    for each in case.get("product", ()):
        world.add(Product(name=each["code"], code=each["code"]), each["code"])
    for name in ("aggregation", "compound", "counter", "plan", "group"):
        for each in case.get(name, ()):
            getattr(world, name)(**each)
    for each in case.get("pricing", ()):
        rows = each.pop("bands")
        world.pricing(each.pop("plan"), each.pop("aggregation"), rows, **dated(each))
    for each in case.get("grouping_key", ()):
        world.grouping_key(**each)
    for each in case.get("counter_pricing", ()):
        rows = each.pop("bands")
        world.counter_pricing(each.pop("plan"), each.pop("counter"), rows, **dated(each))
    use(world, case)
    return world


def use(world, case):
    """The accounts with their plans, and what they use."""
    for each in case["account"]:
        world.account(**dated(each))
    for each in case.get("contract", ()):
        world.contract(**each)
    for each in case.get("account_plan", ()):
        world.subscribe(each.pop("account"), each.pop("plan"), **dated(each))
    verbs = {"adjustment": world.adjust, "usage": world.use}
    for name in ("adjustment", "charge", "commitment", "balance", "usage"):
        for each in case.get(name, ()):
            verbs.get(name, getattr(world, name, None))(**dated(each))


def dated(fields):
    return {
        name: instant(value)
        if name in {"start_date", "end_date"} and isinstance(value, str)
        else value
        for name, value in fields.items()
    }


def made(world, case):
    """The bills of the months of a file, and why there are no others."""
    months = case.get("months") or [case["month"]]
    return [each for month in months for each in world.made(month)]


def shown(bill, expected):
    """A bill in the words of the file, with those members that the file has."""
    asked = expected.get("line", [])
    lines = [
        {name: LINE[name](line) for name in (asked[n] if n < len(asked) else LINE)}
        for n, line in enumerate(bill.lines)
    ]
    return {
        "account": bill.account_code,
        "currency": bill.currency,
        "total": bill.total,
        "line": lines,
        **{name: BILL[name](bill) for name in BILL if name in expected},
    }


def told_apart(bills):
    """Bills of a file by account, and by what tells them apart where an account has several."""
    names = ("account", "bill_date", "interval", "frequency", "group")
    return {tuple(map(each.get, names)): each for each in bills}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_bills_are_as_written(path):
    case = read(path)
    world = built(case)
    bills = [each for each in made(world, case) if isinstance(each, Bill)]
    expected = told_apart({"currency": "USD", "line": [], **each} for each in case["bill"])
    found = []
    for bill in bills:
        names = product(
            [bill.account_code],
            [str(bill.bill_date), None],
            [bill.bill_frequency_interval, None],
            [str(bill.billing_frequency), None],
            [GROUPS.get(bill.grouping_key, ""), None],
        )
        found.append(shown(bill, next(expected[name] for name in names if name in expected)))

    assert told_apart(found) == expected
    assert len(found) == len(expected)
    if "months" in case:
        return
    asked = sorted(({"account": None, **each} for each in case.get("unpriced", ())), key=by_account)
    found = sorted(reported(world, case), key=by_account)
    named = [{name: row[name] for name in each} for row, each in zip(found, asked, strict=True)]
    assert named == asked
    if "without" in case:
        told = {each.account_id for each in world.made(case["month"])}
        assert [each.to_wire() for each in world.without(case["month"], told)] == case["without"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_money_is_written_with_the_places_of_its_currency(path):
    case = read(path)
    places = {each["code"]: int(each["places"]) for each in case.get("currency", ())}
    for bill in (each for each in made(built(case), case) if isinstance(each, Bill)):
        for line in bill.lines:
            assert -line.converted_subtotal.as_tuple().exponent == places.get(bill.currency, 2)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_two_lines_of_a_bill_are_the_same_line(path):
    case = read(path)
    for bill in (each for each in made(built(case), case) if isinstance(each, Bill)):
        assert len({line.key for line in bill.lines}) == len(bill.lines)


def by_account(row):
    return row["account"] or "", row["quantity"]


def reported(world, case):
    return [
        {
            "account": row.account_code,
            "aggregation": row.aggregation_code,
            "quantity": row.quantity,
            "units": row.units,
            "unit": row.unit,
            "reason": row.reason.value,
            "detail": row.detail,
        }
        for row in world.unpriced(case["month"])
    ]


def test_there_are_cases():
    assert len(CASES) >= 17
