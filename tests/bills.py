"""What a home needs to be billed: prices for the meter `egress`, and a plan for its accounts."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.databases import copy_home, current_database
from tests.homes import HEADER, Home, a_home, configure, csv_row, open_home


def refuse_bills(home: Any, account: str, frequency: str = "MONTHLY") -> None:
    """Put an account on a plan in a currency without a rate, too: its bills cannot be made."""
    template = {"code": "odd", "name": "Odd", "productId": "odd", "currency": "EUR"}
    plan = {"code": "odd", "name": "Odd", "planTemplateId": "odd"}
    configure(
        home.organization,
        currencies=[{"code": "EUR", "name": "Euro"}],
        products=[{"code": "odd", "name": "Odd"}],
        planTemplates=[{**template, "standingCharge": 1, "billFrequency": frequency}],
        plans=[plan],
        accountPlans=[
            {
                "code": f"{account}-odd",
                "accountId": account,
                "planId": "odd",
                "startDate": "2026-01-01T00:00:00Z",
            }
        ],
    )


def price_egress(home: Home, **changes: Any) -> None:
    """Sum and mean of `gb`; 1 USD a unit up to 100 and 0.50 after that; 31 USD a month."""
    configure(
        home.organization,
        products=[{"code": "cloud", "name": "Cloud"}],
        aggregations=[
            aggregation("sent", "SUM", **changes.get("aggregation", {})),
            aggregation("mean", "MEAN"),
        ],
        planTemplates=[
            {
                "code": "cloud",
                "name": "Cloud",
                "productId": "cloud",
                "currency": "USD",
                "standingCharge": 31,
                "billFrequency": "MONTHLY",
            }
        ],
        plans=[{"code": "basic", "name": "Basic", "planTemplateId": "cloud"}],
        pricings=[
            {
                "code": "sent",
                "planId": "basic",
                "aggregationId": "sent",
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": [
                    {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": changes.get("price", 1)},
                    {"lowerLimit": 100, "fixedPrice": 0, "unitPrice": 0},
                ],
            }
        ],
    )


def aggregation(code: str, kind: str, **changes: Any) -> dict[str, Any]:
    """An aggregation of `gb`."""
    return {
        "code": code,
        "name": code.title(),
        "meterId": "egress",
        "targetField": "gb",
        "aggregation": kind,
        "rounding": "NONE",
        "quantityPerUnit": 1,
        "unit": "GB",
        **changes,
    }


def subscribe(home: Home, *accounts: str, start: str = "2026-01-01T00:00:00Z") -> None:
    """Put accounts on the plan."""
    configure(
        home.organization,
        accountPlans=[
            {
                "code": f"{account}-basic",
                "accountId": account,
                "planId": "basic",
                "startDate": start,
            }
            for account in accounts
        ],
    )


def use(home: Home, *rows: tuple[str, str, object]) -> None:
    """Ingest (uid, account, gigabytes) on 3 September 2026."""
    home.ingest(
        f"{rows[0][0]}.csv",
        HEADER + "".join(csv_row(uid, gb, account) for uid, account, gb in rows),
    )


Prepare = Callable[[Home], object]


@cache
def _template(database: str, prepare: Prepare | None) -> tuple[Path, str]:  # noqa: ARG001
    folder = Path(tempfile.mkdtemp(prefix="meterlake-billed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if prepare is not None:
        with a_home_to_bill(folder) as home:
            prepare(home)
            return home.stores.home, home.org_id
    with a_home(folder) as home:
        price_egress(home)
        subscribe(home, "acme", "bolt")
        use(home, ("1", "acme", 40), ("2", "acme", "2.5"), ("3", "bolt", 200))
        return home.stores.home, home.org_id


@contextmanager
def a_home_to_bill(folder: Path, prepare: Prepare | None = None, **changes: Any) -> Iterator[Home]:
    """A home in which acme used 42.5 and bolt 200, both of them on the plan.

    Args:
        folder: The home is in it.
        prepare: What else is done before: once, for all tests that name the same function.
        changes: Settings.
    """
    template, org_id = _template(current_database(), prepare)
    copy_home(template, folder / "home")
    with open_home(folder / "home", org_id, **changes) as home:
        yield home
