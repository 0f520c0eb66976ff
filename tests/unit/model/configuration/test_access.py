import pytest

from meterlake.model.configuration.access import (
    PermissionAction,
    PermissionEffect,
    PermissionPolicy,
    ServiceUser,
)
from tests.entity_rules import refused, required

STATEMENT = {"effect": "allow", "action": ["config:create"], "resource": ["config:meter/*"]}
POLICY = {"name": "Meters", "permissionPolicy": [STATEMENT]}


def test_what_is_required_is_what_the_contract_requires():
    assert required(PermissionPolicy, POLICY) == {"name", "permissionPolicy"}
    assert required(ServiceUser, {"name": "robot"}) == {"name"}


@pytest.mark.parametrize(
    ("effect", "action"), [("allow", "config:create"), ("ALLOW", "CONFIG_CREATE")]
)
def test_both_ways_to_write_a_statement_mean_the_same(effect, action):
    policy = PermissionPolicy.from_wire(
        POLICY | {"permissionPolicy": [STATEMENT | {"effect": effect, "action": [action]}]}
    )

    assert policy.permission_policy[0].effect is PermissionEffect.ALLOW
    assert policy.permission_policy[0].action == (PermissionAction.CONFIG_CREATE,)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ({"effect": "maybe"}, "effect"),
        ({"action": ["config:destroy"]}, "action[0]"),
        ({"action": "config:create"}, "action"),
        ({"resource": []}, "resource"),
        ({"resource": [""]}, "resource[0]"),
    ],
)
def test_a_statement_that_breaks_the_contract_is_refused(statement, place):
    policy = [STATEMENT | statement]

    assert refused(PermissionPolicy, POLICY, permissionPolicy=policy) == {
        f"permissionPolicy[0].{place}"
    }
