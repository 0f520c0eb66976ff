"""A server whose accounts use gigabytes at 1 USD, and have commitments and balances that pay."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import m3ter
import pytest

from meterlake.pipeline.billing.jobs.jobs import run_bill_job
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from tests.homes import EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import Served, served

YEAR = {"start_date": "2026-01-01", "end_date": "2027-01-01"}
YEAR_OF_INSTANTS = {name: f"{day}T00:00:00Z" for name, day in YEAR.items()}
BANDS = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}]
TIERS = [*BANDS, {"lowerLimit": 100, "fixedPrice": 0, "unitPrice": Decimal("0.5")}]
_RATES = [{"from": "GBP", "to": "USD", "multiplier": 2}]
# What paid for itself twice would be seen at once.
OVERAGE = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 3}]

# What a request to change the organization's settings says anyway.
_SETTINGS = (
    *("currency", "timezone", "year_epoch", "month_epoch", "week_epoch", "day_epoch", "version"),
    *("days_before_bill_due", "scheduled_bill_interval"),
    *("commitment_fee_bill_in_advance", "consolidate_bills", "minimum_spend_bill_in_advance"),
    *("standing_charge_bill_in_advance",),
)


def _catalog() -> dict[str, Any]:
    egress = {"name": "Sent", "meterId": "egress", "targetField": "gb", "aggregation": "SUM"}
    plans = {"usage": ("cloud", 0), "seats": ("seats", 31), "tiers": ("cloud", 0)}
    pricing = {"aggregationId": "sent", "startDate": "2026-01-01T00:00:00Z", "cumulative": True}
    return {
        "organizationConfig": {
            "currency": "USD",
            "daysBeforeBillDue": 14,
            "currencyConversions": _RATES,
        },
        "currencies": [{"code": code, "name": code} for code in ("GBP", "JPY")],
        "products": [{"code": code, "name": code.title()} for code in ("cloud", "seats")],
        "meters": [EGRESS],
        "aggregations": [
            {**egress, "code": "sent", "rounding": "NONE", "quantityPerUnit": 1, "unit": "GB"}
        ],
        "planTemplates": [
            {
                "code": code,
                "name": code.title(),
                "productId": product,
                "currency": "USD",
                "standingCharge": charge,
                "billFrequency": "MONTHLY",
            }
            for code, (product, charge) in plans.items()
        ],
        "plans": [{"code": code, "name": code.title(), "planTemplateId": code} for code in plans],
        "pricings": [
            {**pricing, "code": "usage", "planId": "usage", "pricingBands": BANDS},
            {
                **pricing,
                "code": "tiers",
                "planId": "tiers",
                "pricingBands": TIERS,
                "overagePricingBands": OVERAGE,
            },
        ],
    }


class CreditWorld:
    """The organization of a server, and short ways to use, to pay for, and to bill."""

    def __init__(self, server: Served, sdk: m3ter.M3ter) -> None:
        self.server = server
        self.sdk = sdk
        self.home = Home(server.stores, server.org_id, Clock())
        self.plans = {each.code: each.id for each in sdk.plans.list()}
        self.products = {each.code: each.id for each in sdk.products.list()}
        self._numbers = count()

    def account(self, *plans: str, **more: Any) -> Any:
        """An account on plans since January."""
        code = f"account{next(self._numbers)}"
        made = self.sdk.accounts.create(code=code, name=code, email_address="a@example.com", **more)
        for plan in plans or ("usage",):
            self.attach(made, plan)
        return made

    def attach(self, account: Any, plan: str, **more: Any) -> Any:
        """Put an account on another plan, perhaps under a contract."""
        return self.sdk.account_plans.create(
            account_id=account.id,
            plan_id=self.plans[plan],
            **{"start_date": datetime(2026, 1, 1, tzinfo=UTC), **more},
        )

    def contract(self, account: Any) -> Any:
        """A contract of the year 2026."""
        code = f"contract{next(self._numbers)}"
        return self.sdk.contracts.create(account_id=account.id, code=code, name=code, **YEAR)

    def organization(self, **changes: Any) -> None:
        """Change settings of the organization."""
        known = self.sdk.organization_config.retrieve().to_dict(use_api_names=False)
        kept: dict[str, Any] = {name: known[name] for name in _SETTINGS if name in known}
        kept["currency_conversions"] = _RATES
        self.sdk.organization_config.update(**{**kept, **changes})

    def use(self, account: Any, *used: tuple[str, object]) -> None:
        """Ingest days and gigabytes."""
        rows = (
            csv_row(f"u{next(self._numbers)}", gb, account.code, ts=f"{day}T10:00:00Z")
            for day, gb in used
        )
        name = f"{account.code}-{next(self._numbers)}.csv"
        assert self.home.ingest(name, HEADER + "".join(rows)).rejected == 0

    def commit(self, account: Any, amount: float, **more: Any) -> Any:
        """A commitment of the year 2026."""
        settings = {"currency": "USD", **YEAR, "amount_pre_paid": amount, **more}
        return self.sdk.commitments.create(account_id=account.id, amount=amount, **settings)

    def balance(self, account: Any, amount: float = 0, **more: Any) -> Any:
        """A balance of the year 2026, with money since 1 January."""
        code = f"balance{next(self._numbers)}"
        settings = {"currency": "USD", **YEAR_OF_INSTANTS, **more}
        made = self.sdk.balances.create(account_id=account.id, code=code, name=code, **settings)
        if amount:
            self.top_up(made, amount)
        return made

    def top_up(self, balance: Any, amount: float, applied: str = "2026-01-01") -> Any:
        """Money that counts from a day on."""
        return self.sdk.balances.transactions.create(
            balance.id, amount=amount, applied_date=f"{applied}T00:00:00Z"
        )

    def run(self, *days: str, accounts: Any = ()) -> list[BillResult]:
        """Run a job for each bill date."""
        found = []
        for day in days:
            ids = {"account_ids": [each.id for each in accounts]} if accounts else {}
            job = self.sdk.bill_jobs.create(bill_date=day, **ids)
            found.append(run_bill_job(self.server.stores, job.id))
        return found

    def bill(self, account: Any, *days: str) -> dict[str, list[tuple[str, Decimal]]]:
        """Bill some dates: by bill date the types and amounts of the lines of all bills."""
        for result in self.run(*days, accounts=[account]):
            assert result.failures == []
        self.check()
        return self.lines(account)

    def bills(self, account: Any) -> dict[str, Any]:
        """The bills of an account with their lines, by bill date."""
        found = self.sdk.bills.list(account_id=account.id, additional=["lineItems"])
        return {str(each.bill_date): each for each in sorted(found, key=lambda e: e.bill_date)}

    def lines(self, account: Any) -> dict[str, list[tuple[str, Decimal]]]:
        """The types and amounts of the lines of an account's bills, by bill date."""
        return {
            day: [
                (line.line_item_type, Decimal(str(line.converted_subtotal)))
                for line in each.line_items
            ]
            for day, each in self.bills(account).items()
        }

    def total(self, account: Any, day: str) -> float:
        """What a bill comes to."""
        found = self.sdk.bills.retrieve(self.bills(account)[day].id).bill_total
        assert found is not None
        return float(found)

    def amount(self, balance: Any) -> float:
        """What a balance holds."""
        found = self.sdk.balances.retrieve(balance.id).amount
        assert found is not None
        return float(found)

    def spent(self, commitment: Any) -> float:
        """What is spent of a commitment."""
        return float(self.sdk.commitments.retrieve(commitment.id).amount_spent or 0)

    def events(self, beginning: str, resource: Any) -> list[Any]:
        """The data of events of something, the oldest first."""
        found = self.sdk.events.list(resource_id=resource.id, page_size=100)
        data = [
            each.m3ter_event["eventData"] for each in found if each.event_name.startswith(beginning)
        ]
        return data[::-1]

    def check(self) -> int:
        """The ledger is right; how many postings it has."""
        found = check_ledger(self.server.organization)
        assert found.differences == ()
        return found.postings


@contextmanager
def credit_world(folder: Path, **changes: Any) -> Iterator[CreditWorld]:
    """Serve such an organization until the body ends."""
    with served(folder / "home", _fill_catalog, **changes) as server, server.sdk() as sdk:
        yield CreditWorld(server, sdk)


def _fill_catalog(home: Home) -> None:
    configure(home.organization, **_catalog())


@pytest.fixture(scope="module")
def world(home_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CreditWorld]:
    """One organization for all tests of a module."""
    with credit_world(tmp_path_factory.mktemp(home_database)) as found:
        yield found
