import pytest
from pydantic import ValidationError

from meterlake.model.catalog.plans import Plan, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.values.entity import Configuration
from tests.organizations import after, everything

ACME = {"code": "acme", "name": "Acme", "emailAddress": "a@b.example"}


def test_an_entity_is_read_and_written_with_the_names_of_the_wire():
    account = Account.from_wire(ACME | {"currency": None, "colour": "red"})

    assert account.to_wire() == ACME | {"customFields": {}, "creditApplicationOrder": ()}
    assert Account(code="acme", name="Acme", email_address="a@b.example") == account


def test_an_entity_never_changes():
    account = Account.from_wire(ACME)

    with pytest.raises(ValidationError):
        account.name = "Bolt"


def test_a_configuration_finds_by_id_by_code_by_value_and_the_only_one():
    configuration = after(everything())
    plan = configuration.find(Plan, "basic")

    assert configuration.get(Plan, plan.id) is plan
    assert [r.entity.plan_id for r in configuration.where(Pricing, "plan_id", plan.id)] == [plan.id]
    assert configuration.where(Pricing, "plan_id", "nothing") == []
    assert configuration.find(Plan, "nothing") is None
    assert configuration.single(OrganizationConfig).entity.days_before_bill_due == 14
    assert configuration.versions()[plan.id] == 1
    assert Plan in configuration.kinds()


def test_what_is_not_there_is_not_found():
    with pytest.raises(NotFound):
        Configuration([]).get(Plan, "nothing")
    with pytest.raises(NotFound):
        Configuration([]).single(OrganizationConfig)
    assert list(Configuration([]).all(Plan)) == []
