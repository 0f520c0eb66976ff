"""Builders for tests: a small organization, in documents and in State."""

import atexit
import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from meterlake.model.configuration.organization import (
    BillConfig,
    Currency,
    CustomFields,
    OrganizationConfig,
)
from meterlake.model.resources.proposal import Document
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.ids import derived_id
from meterlake.settings import Settings
from meterlake.stages.config.check import check
from meterlake.stages.config.diff import propose
from meterlake.stores import Stores, open_stores
from meterlake.stores.state import State
from meterlake.stores.state.core.engine import sqlite_url
from meterlake.stores.state.core.state import FILE_NAME

DOCUMENTS: dict[str, Any] = {
    "organizationConfig": {"timezone": "Europe/Berlin", "daysBeforeBillDue": 14},
    "products": [{"code": "cloud", "name": "Cloud"}, {"code": "shop", "name": "Shop"}],
    "meters": [
        {
            "code": "egress",
            "name": "Egress",
            "productId": "cloud",
            "dataFields": [
                {"category": "MEASURE", "code": "gb", "name": "Sent", "unit": "GBy"},
                {"category": "WHERE", "code": "region", "name": "Region"},
            ],
        }
    ],
    "aggregations": [
        {
            "code": "egress_gb",
            "name": "Egress",
            "meterId": "egress",
            "targetField": "gb",
            "aggregation": "SUM",
            "rounding": "NONE",
            "quantityPerUnit": 1,
            "unit": "GB",
        }
    ],
    "planTemplates": [
        {
            "code": "cloud",
            "name": "Cloud",
            "productId": "cloud",
            "currency": "USD",
            "standingCharge": 10,
            "billFrequency": "MONTHLY",
        }
    ],
    "plans": [{"code": "basic", "name": "Basic", "planTemplateId": "cloud"}],
    "pricings": [
        {
            "code": "egress",
            "planId": "basic",
            "aggregationId": "egress_gb",
            "startDate": "2026-01-01T00:00:00Z",
            "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
        }
    ],
    "accounts": [
        {"code": "acme", "name": "Acme", "emailAddress": "bills@acme.example"},
        {"code": "bolt", "name": "Bolt", "emailAddress": "bills@bolt.example"},
    ],
    "accountPlans": [
        {
            "code": "acme-basic",
            "accountId": "acme",
            "planId": "basic",
            "startDate": "2026-01-01T00:00:00Z",
        }
    ],
}


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.time = datetime(2026, 10, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **span: int) -> datetime:
        """Turn the clock on, and tell the time."""
        self.time += timedelta(**span)
        return self.time


def changed(name: str, /, **fields: Any) -> list[Document]:
    """The documents with some fields of one entity changed; None takes a field away."""
    content = copy.deepcopy(DOCUMENTS)
    entity = content[name] if isinstance(content[name], dict) else content[name][0]
    for field, value in fields.items():
        if value is None:
            entity.pop(field, None)
        else:
            entity[field] = value
    return [Document("all.yaml", content)]


def added(name: str, /, **fields: Any) -> list[Document]:
    """A document with one entity of its own."""
    return [Document("new.yaml", {name: [fields]})]


def everything() -> list[Document]:
    """The documents as they are."""
    return [Document("all.yaml", copy.deepcopy(DOCUMENTS))]


def new_organization(state: State, code: str = "acme") -> str:
    """An organization as `init_home` leaves it, without access; its id."""
    with state.new_organization(code, code, "SYSTEM") as transaction:
        transaction.create(Currency(code="USD", name="US dollar"))
        transaction.create(OrganizationConfig(days_before_bill_due=30))
        transaction.create(CustomFields())
        transaction.create(BillConfig())
        return transaction.org_id


@cache
def migrated_file() -> Path:
    """A database of SQLite that is migrated and has no rows: migrating takes 0.07 s."""
    folder = Path(tempfile.mkdtemp(prefix="meterlake-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    State.at(sqlite_url(folder / FILE_NAME)).close()
    (folder / FILE_NAME).chmod(0o600)  # as a home has it
    return folder / FILE_NAME


def prepare_home(home: Path) -> Path:
    """Make the folder of a home with a migrated database that has no rows; the same path."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(migrated_file(), home)
    return home


def open_new(settings: Settings, clock: Clock | None = None) -> Stores:
    """Open a home that has nothing yet."""
    if settings.state is None:
        prepare_home(settings.home)
    else:
        settings.home.mkdir(mode=0o700, parents=True)
    return open_stores(settings, clock or Clock())


@contextmanager
def open_state(home: Path, clock: Clock | None = None) -> Iterator[State]:
    """A new State in a folder."""
    settings = Settings(home=prepare_home(home), _env_file=None)
    with State.open(settings, clock or Clock()) as state:
        yield state


def empty() -> Configuration:
    """The configuration of a new organization, in memory."""
    entities = (
        Currency(code="USD", name="US dollar"),
        OrganizationConfig(days_before_bill_due=30),
        CustomFields(),
        BillConfig(),
    )
    start = Clock()()
    return Configuration(
        Record(derived_id(str(n)), 1, entity, start, "SYSTEM", start, "SYSTEM")
        for n, entity in enumerate(entities)
    )


def after(documents: list[Document], before: Configuration | None = None) -> Configuration:
    """What a configuration becomes by documents, in memory."""
    start = before or empty()
    return check(start, propose("org", start, documents, lambda: str(uuid4())))
