import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.configuration.access import (
    PermissionAction,
    PermissionEffect,
    PermissionPolicy,
    PermissionStatement,
)
from meterlake.model.configuration.permissions import (
    ADMINISTRATOR,
    ANYTHING,
    MANAGED,
    NOTHING,
    READ_ONLY,
    Permissions,
)
from tests.entity_rules import refused

ID = "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11"
GROUP = "5f6f4f0a-6f86-4c0f-9a0a-0d6a5d1c3b22"


def statement(effect, action, *resource):
    actions = [action] if isinstance(action, str) else action
    return PermissionStatement(effect=effect, action=actions, resource=resource)


def allow(action, *resource):
    return statement("allow", action, *resource)


def deny(action, *resource):
    return statement("deny", action, *resource)


def test_who_has_nothing_may_do_nothing():
    assert NOTHING.empty
    assert not NOTHING.allows("config:retrieve", "meter", ID)
    assert not NOTHING.allows(ANYTHING, "user")


def test_denials_and_empty_statements_alone_allow_nothing():
    assert Permissions([deny("all", "*")]).empty
    assert Permissions([allow([], "*")]).empty


@pytest.mark.parametrize(
    ("resource", "allowed"),
    [
        ("*", True),
        ("*:*", True),
        ("*:*/*", True),
        ("config:*", True),
        ("config:*/*", True),
        ("config:meter", True),
        ("config:meter/*", True),
        ("CONFIG:Meter/*", True),
        ("config:meter/item/*", True),
        (f"config:meter/item/{ID}", True),
        (f"config:meter/item/{ID.upper()}", True),
        (f"config:meter/group/{GROUP}", True),
        ("config:meter/group/*", True),
        ("config:plan/*", False),
        ("config:meters/*", False),
        ("measurements:meter/*", False),
        (f"config:meter/item/{GROUP}", False),
        (f"config:meter/group/{ID}", False),
        (f"config:plan/item/{ID}", False),
    ],
)
def test_a_resource_name_matches_what_it_names(resource, allowed):
    permissions = Permissions([allow("config:update", resource)])

    assert permissions.allows("config:update", "meter", ID, {GROUP}) is allowed


def test_an_action_allows_no_other():
    permissions = Permissions([allow("config:retrieve", "*")])

    assert permissions.allows("config:retrieve", "meter")
    for action in set(PermissionAction) - {PermissionAction.CONFIG_RETRIEVE}:
        assert not permissions.allows(action, "meter")


def test_all_of_a_type_are_not_allowed_by_what_names_one():
    one = Permissions([allow("all", f"config:meter/item/{ID}", f"config:meter/group/{GROUP}")])

    assert one.allows("config:retrieve", "meter", ID)
    assert not one.allows("config:retrieve", "meter")


def test_groups_are_asked_for_only_where_a_statement_speaks_of_them():
    permissions = Permissions(
        [allow("all", "*"), deny("config:delete", f"config:meter/group/{GROUP}")]
    )

    assert permissions.asks_for_groups("config:delete", "meter")
    assert not permissions.asks_for_groups("config:update", "meter")
    assert not permissions.asks_for_groups("config:delete", "plan")
    assert not permissions.allows("config:delete", "meter", ID, {GROUP})
    assert permissions.allows("config:delete", "meter", ID)


def test_a_resource_may_bring_its_own_service():
    permissions = Permissions([allow("config:retrieve", "identity:user/*")])

    assert permissions.allows("config:retrieve", "identity:user", ID)
    assert not permissions.allows("config:retrieve", "user", ID)


def test_the_administrator_may_do_all_and_the_reader_changes_nothing():
    every = Permissions(ADMINISTRATOR.permission_policy)
    reading = Permissions(READ_ONLY.permission_policy)

    assert [policy.name for policy in MANAGED] == ["Administrator", "ReadOnly"]
    for action in PermissionAction:
        assert every.allows(action, "meter", ID)
    for action in ("config:create", "config:update", "config:delete", "measurements:upload", "all"):
        assert not reading.allows(action, "meter", ID)
    assert reading.allows("config:retrieve", "meter", ID)


@pytest.mark.parametrize(
    "resource",
    ["meter", "config:", "config:meter/one/x", "config:meter/item/x/y", "config:me ter/*", "**"],
)
def test_a_resource_name_that_means_nothing_is_refused(resource):
    policy = {"effect": "deny", "action": ["all"], "resource": [resource]}

    assert refused(PermissionPolicy, {"name": "x", "permissionPolicy": [policy]}) == {
        "permissionPolicy[0].resource[0]"
    }


ACTIONS = st.sampled_from([*PermissionAction])
RESOURCES = st.sampled_from(
    [
        "*",
        "*:*/*",
        "config:meter/*",
        "config:plan/*",
        f"config:meter/item/{ID}",
        f"config:meter/group/{GROUP}",
        "measurements:*",
        f"config:plan/item/{ID}",
    ]
)
STATEMENTS = st.lists(
    st.builds(
        lambda effect, actions, resources: PermissionStatement(
            effect=effect, action=actions, resource=resources
        ),
        st.sampled_from(["allow", "deny"]),
        st.lists(ACTIONS, max_size=3),
        st.lists(RESOURCES, min_size=1, max_size=3),
    ),
    max_size=6,
)
QUESTIONS = st.tuples(
    ACTIONS,
    st.sampled_from(["meter", "plan", "user"]),
    st.sampled_from([None, ID, GROUP]),
    st.sampled_from([frozenset(), frozenset({GROUP})]),
)


@given(STATEMENTS, QUESTIONS)
def test_a_denial_always_wins(statements, question):
    alone = Permissions(
        [each.model_copy(update={"effect": PermissionEffect.ALLOW}) for each in statements]
    )
    denied = any(
        Permissions([each.model_copy(update={"effect": PermissionEffect.ALLOW})]).allows(*question)
        for each in statements
        if each.effect == "deny"
    )
    allowed = Permissions(statements).allows(*question)

    assert not (allowed and denied)
    assert not (allowed and not alone.allows(*question))
    assert not Permissions([*statements, deny(question[0], "*")]).allows(*question)


@given(STATEMENTS, QUESTIONS, st.randoms(use_true_random=False))
def test_the_order_of_statements_and_their_repetition_mean_nothing(statements, question, random):
    shuffled = statements * 2
    random.shuffle(shuffled)

    assert Permissions(shuffled).allows(*question) is Permissions(statements).allows(*question)
