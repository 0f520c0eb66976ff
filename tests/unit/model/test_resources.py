import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter, Product
from meterlake.model.catalog.plans import Plan, Pricing
from meterlake.model.configuration.access import SYSTEM, PermissionPolicy
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.resources import (
    RESOURCES,
    Resource,
    in_order,
    natural_key,
    response,
    values_at,
    wire_name,
)
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from tests.organizations import Clock, after, everything


class Undescribed(Product):
    __doc__ = None


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": "Plan templates"}, "bad name"),
        ({"path": "/products"}, "bad path"),
        ({"entity": Undescribed}, "bad docstring"),
        ({"refs": {"meter_id": Meter}}, "bad fields"),
        ({"codes": {"colour": Account}}, "bad fields"),
        ({"key": ("colour",)}, "bad fields"),
        ({"key": ("code",), "singleton": True}, "bad key of a singleton"),
        ({"codes": {"code": OrganizationConfig}}, "bad code to refer to"),
    ],
)
def test_a_wrong_row_is_refused_when_it_is_defined(fields, fault):
    with pytest.raises(ValueError, match=fault):
        Resource(**{"name": "products", "path": "products", "entity": Product, **fields})


def test_everything_comes_after_what_it_refers_to():
    seen = set()
    for resource in in_order():
        seen.add(resource.entity)
        assert {*resource.refs.values(), *resource.codes.values()} <= seen
    assert len(seen) == len(RESOURCES)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda row: row.name)
def test_a_field_is_named_on_the_wire_as_the_kernel_thinks(resource):
    for name, field in resource.entity.model_fields.items():
        assert field.alias == wire_name(name)


# Ids that other systems gave, or that belong to no declared kind.
OUTSIDE = {
    "exportDestinations": {"pool_id", "provider_id"},
    "integrationConfigs": {"entity_id", "integration_credentials_id"},
    "externalMappings": {"external_id", "m3ter_id"},
}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda row: row.name)
def test_every_id_that_a_kind_holds_is_declared(resource):
    ids = {name for name in resource.entity.model_fields if name.endswith("_id")}

    assert ids - set(resource.refs) <= OUTSIDE.get(resource.name, set())


def test_values_are_found_in_lists_and_nested_fields():
    config = OrganizationConfig.from_wire(
        {
            "daysBeforeBillDue": 1,
            "currencyConversions": [
                {"from": "EUR", "to": "USD", "multiplier": 1},
                {"from": "GBP", "to": "USD", "multiplier": 1},
            ],
        }
    )

    assert list(values_at(config, "currency_conversions.from_")) == [
        ("currencyConversions[0].from", "EUR"),
        ("currencyConversions[1].from", "GBP"),
    ]


def test_an_absent_reference_is_none_at_all():
    account = Account(code="a", name="A", email_address="a@b.example")

    assert list(values_at(account, "parent_account_id")) == []


def test_the_natural_key_does_not_depend_on_how_an_instant_is_written():
    first = {
        "accountId": "0" * 8 + "-0000-4000-8000-" + "0" * 12,
        "startDate": "2026-01-01T00:00:00Z",
    }
    second = first | {"startDate": "2026-01-01T01:00:00+01:00"}

    assert natural_key(AccountPlan.from_wire(first)) == natural_key(AccountPlan.from_wire(second))
    assert natural_key(Product(code="a", name="A")) is None


def test_a_response_is_the_fields_the_envelope_and_what_is_computed():
    configuration = after(everything())
    product = configuration.find(Product, "cloud").id
    plan = response(configuration.find(Plan, "basic"), configuration)
    account_plan = response(next(configuration.all(AccountPlan)), configuration)
    pricing = response(next(configuration.all(Pricing)), configuration)

    assert plan["productId"] == account_plan["productId"] == product
    assert {"id", "version", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"} <= set(
        plan
    )
    assert pricing["aggregationType"] == "SIMPLE"
    assert "segmentString" not in pricing
    assert (
        response(configuration.find(Aggregation, "egress_gb"), configuration)["code"] == "egress_gb"
    )


def test_a_policy_of_our_own_is_a_managed_one():
    policy = PermissionPolicy.from_wire(
        {
            "name": "All",
            "permissionPolicy": [
                {
                    "effect": "ALLOW",
                    "action": ["CONFIG_CREATE", "measurements:upload"],
                    "resource": ["*:*/*"],
                }
            ],
        }
    )
    now = Clock()()

    assert [
        response(Record("1", 1, policy, now, who, now, who), after([]))["managedPolicy"]
        for who in (SYSTEM, "USER_1")
    ] == [True, False]
    assert '"action":["config:create","measurements:upload"],"effect":"allow"' in wire.dumps_sorted(
        policy.to_wire()
    )
