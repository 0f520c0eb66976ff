"""The names of events, and the fields that calculations may name."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from meterlake.model.customers.accounts import Account, Address
from meterlake.model.errors import Invalid
from meterlake.model.resources import RESOURCES, event_fields
from meterlake.model.resources.event_fields import ALERTS, COMPUTED, ENVELOPE, of_entity, type_of
from meterlake.model.resources.events import (
    CATEGORIES,
    NEVER_HAPPEN,
    SIDES,
    account_of,
    change,
    data,
    event_types,
    fields_of,
    published_types,
)
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.fields import Code, Id, Integer, Name, NonNegative, Secret
from meterlake.model.values.secrets import MASK, holds_secrets, mask_secrets

NOW = datetime(2026, 10, 1, tzinfo=UTC)
CONTRACT = Path(__file__).parents[5] / "shared" / "contract" / "api_contract.md"


class Credentials(Entity):
    """Something with a secret."""

    name: Name
    password: Secret | None = None


class Hook(Entity):
    """Something that holds something with a secret."""

    code: Code
    credentials: Credentials


def record(entity, id="1"):
    return Record(id, 1, entity, NOW, "USER_1", NOW, "USER_1")


def published():
    if not CONTRACT.exists():
        pytest.skip("the contract is not here")
    [line] = re.findall(r"Full published event type list: .*", CONTRACT.read_text())
    changes = {
        f"{space}.{entity.strip()}.{action}"
        for space, entities in re.findall(r"(billing|configuration)\.\{([^}]*)\}", line)
        for entity in entities.split(",")
        for action in SIDES
    }
    return changes | set(re.findall(r"(?:dataexport|ingest|integration)(?:\.[a-z]+){2}", line))


def test_every_published_event_type_is_known_and_no_other():
    assert set(published_types()) == published() | set(ALERTS)
    assert set(published_types()) - set(event_types()) == set(NEVER_HAPPEN)


def test_every_event_type_has_fields_beside_the_envelope():
    for name in event_types():
        fields = {path.partition(".")[2] for path in fields_of(name)}

        assert fields - set(ENVELOPE), name


def test_scheduled_events_are_types_too():
    scheduled = {"scheduled.bill.reminder": "Bill", "scheduled.accountplan.end": "AccountPlan"}

    assert set(scheduled) <= set(event_types(scheduled))
    assert fields_of("scheduled.bill.reminder", scheduled)["new.billTotal"] == "double"
    assert fields_of("scheduled.accountplan.end", scheduled)["new.endDate"] == "string"


def test_a_scheduled_event_of_something_unknown_has_the_envelope():
    assert set(fields_of("scheduled.x.y", {"scheduled.x.y": "Teapot"})) == {
        f"new.{name}" for name in ENVELOPE
    }


@pytest.mark.parametrize(
    "name", ["", "x", "scheduled.bill.x", "configuration.account", "configuration.account.moved"]
)
def test_an_unknown_event_has_no_fields(name):
    with pytest.raises(Invalid, match="eventName"):
        fields_of(name)


@pytest.mark.parametrize(
    ("action", "sides"),
    [("created", {"new"}), ("updated", {"new", "old"}), ("deleted", {"old"})],
)
def test_the_fields_are_those_of_the_sides_of_the_change(action, sides):
    fields = fields_of(f"configuration.account.{action}")

    assert {path.partition(".")[0] for path in fields} == sides
    for side in sides:
        assert fields[f"{side}.version"] == "int"
        assert fields[f"{side}.customFields"] == "map"
        assert fields[f"{side}.creditApplicationOrder"] == "array"


def test_what_is_computed_and_the_code_of_the_account_are_fields_of_an_account_plan():
    fields = fields_of("configuration.accountplan.created")

    assert fields["new.productId"] == fields["new.accountCode"] == fields["new.orgId"] == "string"


def test_what_is_declared_as_computed_belongs_to_published_events():
    stems = {name.rpartition(".")[0] for name in event_types()}

    assert set(COMPUTED) <= stems


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (str, "string"),
        (Id, "string"),
        (date, "string"),
        (datetime | None, "string"),
        (bool, "boolean"),
        (Integer, "int"),
        (NonNegative | None, "double"),
        (Decimal, "double"),
        (Address | None, "map"),
        (dict[str, str], "map"),
        (tuple[str, ...], "array"),
        (Annotated[tuple[Address, ...], Field(max_length=2)] | None, "array"),
        (list[int], "array"),
        (frozenset[str], "array"),
        (str | Decimal, "string"),
        (object, "string"),
    ],
)
def test_types_of_fields(annotation, name):
    assert type_of(annotation) == name


def test_every_field_of_every_resource_has_a_type():
    for row in RESOURCES:
        assert set(of_entity(row.entity).values()) <= {
            "string",
            "double",
            "int",
            "boolean",
            "map",
            "array",
        }
        assert event_fields.of_resource(row)["id"] == "string"


def test_the_name_and_the_data_of_a_change_follow_from_its_sides():
    new, old = {"a": 1}, {"a": 2}

    assert (change("x.y", new, None), data(new, None)) == ("x.y.created", {"newDto": new})
    assert (change("x.y", None, old), data(None, old)) == ("x.y.deleted", {"oldDto": old})
    assert change("x.y", new, old) == "x.y.updated"
    assert data(new, old) == {"newDto": new, "oldDto": old}


def test_an_account_is_its_own_account():
    account = Account(name="A", code="a", email_address="a@a.example")

    assert account_of(record(account, "7")) == "7"
    assert account_of(record(Credentials(name="x"))) is None


def test_no_secret_is_shown():
    kept = record(Credentials(name="x", password="hush"))
    nested = record(Hook(code="x", credentials=kept.entity))

    assert mask_secrets(kept).to_wire()["password"] == MASK
    assert mask_secrets(nested).to_wire()["credentials"] == {"name": "x", "password": MASK}
    assert kept.entity.password == "hush"


def test_what_holds_no_secret_is_shown_as_it_is():
    account = record(Account(name="A", code="a", email_address="a@a.example"))

    assert mask_secrets(account) is account
    assert holds_secrets(Hook)
    assert not holds_secrets(Account)


def test_categories_stand_for_known_events():
    names = {name for names in CATEGORIES.values() for name in names}

    assert names <= set(event_types())
    assert len(CATEGORIES["IntegrationEvent"]) == 5
