from dataclasses import replace

import pytest

from meterlake.model.configuration.access import PermissionPolicy, ServiceUser
from meterlake.model.errors import NotFound
from meterlake.stores.state.access import access
from tests.organizations import new_organization

STATEMENT = {"effect": "allow", "action": ["all"], "resource": ["*:*/*"]}


def test_a_key_opens_with_its_secret_and_with_no_other(state, org):
    with state.transaction(org, "SYSTEM") as transaction:
        user = transaction.create(ServiceUser(name="robot"))
        made = access.add_key(transaction, user.id, "s3cret")

    with state.reading(org) as reader:
        key = access.key(reader, made.id)

    assert key.opens_with("s3cret")
    assert not key.opens_with("S3cret")
    assert not replace(key, status="INACTIVE").opens_with("s3cret")
    assert "s3cret" not in repr(key)


def test_policies_are_granted_to_who_exists(state, org):
    with state.transaction(org, "SYSTEM") as transaction:
        user = transaction.create(ServiceUser(name="robot"))
        policy = transaction.create(
            PermissionPolicy.from_wire({"name": "All", "permissionPolicy": [STATEMENT]})
        )
        access.grant(transaction, policy.id, user.id)

        assert access.granted_policy_ids(transaction, user.id) == [policy.id]
        for policy_id, user_id in ((policy.id, "nobody"), ("nothing", user.id)):
            with pytest.raises(NotFound):
                access.grant(transaction, policy_id, user_id)
        with pytest.raises(NotFound):
            access.add_key(transaction, "nobody", "secret")


def test_a_key_of_another_organization_is_not_found(state, org):
    with state.transaction(org, "SYSTEM") as transaction:
        user = transaction.create(ServiceUser(name="robot"))
        made = access.add_key(transaction, user.id, "s3cret")

    with state.reading(new_organization(state, "other")) as reader, pytest.raises(NotFound):
        access.key(reader, made.id)
