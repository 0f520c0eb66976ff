from datetime import timedelta

import pytest

from meterlake.model.configuration.access import (
    SYSTEM,
    KeyStatus,
    PermissionPolicy,
    Principal,
    PrincipalType,
    ResourceGroup,
    ServiceUser,
    SupportAccess,
)
from meterlake.model.configuration.permissions import ADMINISTRATOR
from meterlake.model.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    StaleVersion,
    StillReferenced,
    Unauthorized,
)
from meterlake.pipeline.access import access, groups, login, users
from meterlake.pipeline.access.access import KnownPermissions, permissions_of, sign_in_key
from meterlake.stores.state.access.access import SUPPORT, digest, key_of_home
from meterlake.stores.state.core.pages import Page
from tests.organizations import new_organization
from tests.people import PASSWORD, allow, deny, join, policy, signed_in

NOBODY = "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11"


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch):
    """Argon2 as it is, with less memory: these tests are about who, not about how hard."""
    from argon2 import PasswordHasher

    from meterlake.pipeline.access import login

    monkeypatch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))


@pytest.fixture
def robot(state, org):
    """A program in an organization that another one administers."""
    grant(state, org, create(state, org, ServiceUser(name="keeper")), allow())
    return create(state, org, ServiceUser(name="robot"))


def create(state, org, entity):
    with state.transaction(org, "test") as transaction:
        return transaction.create(entity).id


def group(state, org, type="user", name="group"):
    return create(state, org, ResourceGroup(type=type, name=name))


def grant(state, org, id_, *statements, type=PrincipalType.SERVICEUSER):
    made = policy(state, org, *statements)
    access.grant_policy(state, org, "test", made, (type, id_))
    return made


def principal(state, org, robot):
    key, secret = access.create_key(state, org, "test", robot)
    return sign_in_key(state, key.id, secret)


def add(state, org, type, group, target, kind="item"):
    return groups.put_in(state, org, "test", (type, group), (target, kind))


# --- Keys


def test_a_key_signs_in_with_its_own_secret_only(state, org, robot):
    key, secret = access.create_key(state, org, "test", robot)
    _, other_secret = access.create_key(state, org, "test", robot)

    assert sign_in_key(state, key.id, secret) == Principal(
        PrincipalType.SERVICEUSER, robot, org, key.id
    )
    for key_id, wrong in [
        (key.id, other_secret),
        (key.id, secret[:-1]),
        (key.id, ""),
        (key.id, digest(secret)),
        (key.id, "\ud800"),
        (NOBODY, secret),
        ("", ""),
        ("\x00", "\x00"),
        ("' OR 1=1 --", secret),
    ]:
        with pytest.raises(Unauthorized):
            sign_in_key(state, key_id, wrong)


def test_keys_are_rotated_by_a_second_one(state, org, robot):
    old, old_secret = access.create_key(state, org, "test", robot)
    new, new_secret = access.create_key(state, org, "test", robot)
    grant(state, org, robot, allow())
    before = sign_in_key(state, old.id, old_secret)
    access.set_key_status(state, org, robot, old.id, KeyStatus.INACTIVE)

    assert permissions_of(state, sign_in_key(state, new.id, new_secret)).allows("all", "x")
    with pytest.raises(Unauthorized):
        sign_in_key(state, old.id, old_secret)
    with pytest.raises(Unauthorized):
        permissions_of(state, before)
    access.set_key_status(state, org, robot, old.id, KeyStatus.ACTIVE)
    assert permissions_of(state, before).allows("all", "x")
    access.delete_key(state, org, robot, old.id)
    with pytest.raises(Unauthorized):
        permissions_of(state, before)
    assert [key.id for key in access.list_keys(state, org, robot, Page(10))[0]] == [new.id]


def test_a_key_belongs_to_one_service_user_and_one_organization(state, org, robot):
    key, _ = access.create_key(state, org, "test", robot)
    stranger = create(state, org, ServiceUser(name="stranger"))
    other = new_organization(state, "other")

    for where, who in ((org, stranger), (other, robot)):
        with pytest.raises(NotFound):
            access.get_key(state, where, who, key.id)
        with pytest.raises(NotFound):
            access.delete_key(state, where, who, key.id)
    with pytest.raises(NotFound):
        access.create_key(state, other, "test", robot)


def test_a_deleted_service_user_stops_at_once(state, org, robot):
    grant(state, org, robot, allow())
    someone = principal(state, org, robot)
    access.delete_service_user(state, org, "test", robot)

    with pytest.raises(Unauthorized):
        permissions_of(state, someone)
    assert key_of_home(state, someone.credential) is None


def test_where_only_programs_administer_the_last_one_stays(state, org):
    """By whatever policy, and whatever would take it away."""
    first, last = (create(state, org, ServiceUser(name=name)) for name in ("first", "last"))
    policies = [grant(state, org, each, allow()) for each in (first, last)]
    access.delete_service_user(state, org, "test", first)

    for change in (
        lambda: access.delete_service_user(state, org, "test", last),
        lambda: access.revoke_policy(
            state, org, "test", policies[1], (PrincipalType.SERVICEUSER, last)
        ),
    ):
        with pytest.raises(Conflict, match="nobody else who has access may give policies"):
            change()
    # A person takes its place.
    join(state, org, "ada@example.com", permissionPolicyIds=[policy(state, org, allow())])
    access.delete_service_user(state, org, "test", last)


def test_the_administrator_policy_goes_where_another_one_allows_the_same(state, org, robot):
    with state.transaction(org, SYSTEM) as transaction:
        managed = transaction.create(ADMINISTRATOR).id
    holder = (PrincipalType.SERVICEUSER, robot)
    access.grant_policy(state, org, "test", managed, holder)

    assert access.revoke_policy(state, org, "test", managed, holder).policy_id == managed


# --- Permissions


def test_a_service_user_without_policies_may_do_nothing(state, org, robot):
    assert permissions_of(state, principal(state, org, robot)).empty


def test_policies_come_from_all_sides_and_denials_win(state, org, robot):
    outer, inner = group(state, org, name="outer"), group(state, org, name="inner")
    add(state, org, "user", outer, inner, "group")
    add(state, org, "user", inner, robot)
    grant(state, org, robot, allow("config:retrieve"))
    grant(state, org, inner, allow("config:update"), type=PrincipalType.USERGROUP)
    grant(state, org, outer, deny("config:update", "config:meter/*"), type=PrincipalType.USERGROUP)
    permissions = permissions_of(state, principal(state, org, robot))

    assert permissions.allows("config:retrieve", "meter")
    assert permissions.allows("config:update", "plan")
    assert not permissions.allows("config:update", "meter")
    groups.take_out(state, org, "test", ("user", inner), robot)
    assert not permissions_of(state, principal(state, org, robot)).allows("config:update", "plan")


def test_statements_about_groups_of_things_follow_the_groups(state, org, robot):
    plans = group(state, org, "serviceuser", "robots")
    grant(state, org, robot, allow(), deny("config:delete", f"config:serviceuser/group/{plans}"))
    someone = principal(state, org, robot)
    known = KnownPermissions(state)

    known.require(someone, "config:delete", "serviceuser", robot)
    add(state, org, "serviceuser", plans, robot)
    with pytest.raises(Forbidden):
        known.require(someone, "config:delete", "serviceuser", robot)
    with pytest.raises(Forbidden):
        known.require(someone, "config:delete", "serviceuser", robot.upper())
    known.require(someone, "config:delete", "serviceuser", NOBODY)


def test_what_is_revoked_stops_within_seconds(state, org, robot):
    seconds = [0.0]
    known = KnownPermissions(state, lambda: seconds[0])
    made = grant(state, org, robot, allow())
    someone = principal(state, org, robot)
    assert not known.of(someone).empty
    access.revoke_policy(state, org, "test", made, (PrincipalType.SERVICEUSER, robot))

    seconds[0] += 5
    assert known.of(someone).empty
    access.set_key_status(state, org, robot, someone.credential, KeyStatus.INACTIVE)
    seconds[0] += 5
    with pytest.raises(Unauthorized):
        known.of(someone)


def test_a_policy_in_use_or_managed_is_not_deleted(state, org, robot):
    made = grant(state, org, robot, allow())
    with state.transaction(org, SYSTEM) as transaction:
        from meterlake.model.configuration.permissions import READ_ONLY

        managed = transaction.create(READ_ONLY).id

    with pytest.raises(StillReferenced):
        access.delete_policy(state, org, "test", made)
    with pytest.raises(Forbidden):
        access.delete_policy(state, org, "test", managed)
    access.revoke_policy(state, org, "test", made, (PrincipalType.SERVICEUSER, robot))
    assert access.delete_policy(state, org, "test", made).id == made


def test_grants_need_a_principal_of_their_type(state, org, robot):
    made = policy(state, org, allow())
    meters = group(state, org, "meter")
    other = new_organization(state, "other")

    for where, what, type_, id_ in [
        (org, made, PrincipalType.USER, robot),
        (org, made, PrincipalType.USERGROUP, robot),
        (org, made, PrincipalType.USERGROUP, meters),
        (org, NOBODY, PrincipalType.SERVICEUSER, robot),
        (other, made, PrincipalType.SERVICEUSER, robot),
    ]:
        with pytest.raises(NotFound):
            access.grant_policy(state, where, "test", what, (type_, id_))
    first = access.grant_policy(state, org, "a", made, (PrincipalType.SERVICEUSER, robot))
    assert access.grant_policy(state, org, "b", made, (PrincipalType.SERVICEUSER, robot)) == first
    access.revoke_policy(state, org, "a", made, (PrincipalType.SERVICEUSER, robot))
    with pytest.raises(NotFound):
        access.revoke_policy(state, org, "a", made, (PrincipalType.SERVICEUSER, robot))


# --- Groups


def test_groups_hold_no_circles(state, org):
    a, b, c = (group(state, org, name=name) for name in "abc")
    add(state, org, "user", a, b, "group")
    add(state, org, "user", b, c, "group")

    for holder, held in ((a, a), (b, a), (c, a), (c, b)):
        with pytest.raises(Invalid, match="does not hold this group"):
            add(state, org, "user", holder, held, "group")
    add(state, org, "user", a, c, "group")


def test_groups_hold_what_exists_and_is_of_their_type(state, org, robot):
    users_, meters, odd = (group(state, org, each) for each in ("user", "meter", "odd"))

    for type_, holder, target, kind in [
        ("user", users_, NOBODY, "item"),
        ("meter", meters, robot, "item"),
        ("meter", meters, users_, "group"),
        ("user", users_, robot, "group"),
        ("odd", odd, robot, "item"),
    ]:
        with pytest.raises(Invalid):
            add(state, org, type_, holder, target, kind)
    with pytest.raises(NotFound):
        add(state, org, "meter", users_, robot)
    with pytest.raises(NotFound):
        groups.take_out(state, org, "test", ("user", users_), robot)


def test_contents_are_listed_in_pages_and_added_once(state, org, clock):
    holder = group(state, org, "serviceuser")
    robots = []
    for number in range(5):
        clock.advance(seconds=1)
        robots.append(create(state, org, ServiceUser(name=f"robot {number}")))
        add(state, org, "serviceuser", holder, robots[-1])
        add(state, org, "serviceuser", holder, robots[-1])

    found, token = [], None
    while True:
        page, token = groups.contents(state, org, ("serviceuser", holder), Page(2, token))
        found += [member.target_id for member in page]
        if token is None:
            break
    assert found == robots[::-1]


def test_a_deleted_group_takes_its_policies_along(state, org, robot):
    holder = group(state, org)
    add(state, org, "user", holder, robot)
    made = grant(state, org, holder, allow(), type=PrincipalType.USERGROUP)
    assert [each.id for each in groups.group_permissions(state, org, ("user", holder))] == [made]
    groups.delete_group(state, org, "test", ("user", holder))

    assert permissions_of(state, principal(state, org, robot)).empty
    access.delete_policy(state, org, "test", made)


# --- Users


def test_an_invitation_makes_a_user_with_its_policies(state, org):
    made = policy(state, org, allow("config:retrieve"))
    id_ = join(state, org, permissionPolicyIds=[made])
    ada = signed_in(state, org)

    assert permissions_of(state, ada).allows("config:retrieve", "meter")
    assert not permissions_of(state, ada).allows("config:update", "meter")
    shown = users.get_user(state, org, id_)
    assert (shown["email"], shown["firstName"], shown["version"]) == ("ada@example.com", "Ada", 1)
    assert [each.id for each in users.user_permissions(state, org, id_)] == [made]
    assert "password" not in str(shown)


def test_a_link_is_good_once_and_for_its_time(state, org, clock):
    from tests.people import invitation

    shown, letter = users.invite(state, org, "USER_x", invitation())
    assert shown["accepted"] is False
    assert letter.token not in repr(letter)
    for token in ("", "x", letter.token[:-1], shown["id"]):
        with pytest.raises(Unauthorized):
            users.accept_invitation(state, token, PASSWORD)
    with pytest.raises(Unauthorized):
        users.choose_password(state, letter.token, PASSWORD)
    with pytest.raises(Invalid, match=r"12 to 256"):
        users.accept_invitation(state, letter.token, "too short")
    users.accept_invitation(state, letter.token, PASSWORD)
    assert users.get_invitation(state, org, shown["id"])["accepted"] is True
    with pytest.raises(Unauthorized):
        users.accept_invitation(state, letter.token, PASSWORD)
    _, late = users.invite(state, org, "USER_x", invitation("late@example.com"))
    clock.advance(days=31)
    with pytest.raises(Unauthorized):
        users.accept_invitation(state, late.token, PASSWORD)


def test_an_invitation_elsewhere_never_changes_a_password(state, org):
    join(state, org)
    other = new_organization(state, "other")
    from tests.people import invitation

    _, letter = users.invite(state, other, "USER_x", invitation())
    assert not users.needs_password(state, letter.token)
    id_ = users.accept_invitation(state, letter.token, "an attacker's password")

    with pytest.raises(Unauthorized):
        login.sign_in(state, "ada@example.com", "an attacker's password")
    login.sign_in(state, "ADA@example.com", PASSWORD)
    assert {each for each, _ in access.organizations_of(state, id_)} == {org, other}


def test_a_user_is_changed_by_version_and_loses_access_by_date(state, org, clock):
    id_ = join(state, org)
    ada = signed_in(state, org)
    boss = Principal(PrincipalType.USER, NOBODY, org, "")
    statements = PermissionPolicy.from_wire(
        {"name": "x", "permissionPolicy": [allow("config:update", "config:meter/*")]}
    ).permission_policy
    changed = users.update_user(
        state, boss, id_, 1, (statements, clock() + (clock.advance(hours=1) - clock()))
    )
    assert changed["version"] == 2
    with pytest.raises(StaleVersion):
        users.update_user(state, boss, id_, 1, ((), None))
    users.update_user(state, boss, id_, 2, (statements, None))

    assert permissions_of(state, ada).allows("config:update", "meter")
    users.update_user(state, boss, id_, 3, (statements, clock()))
    with pytest.raises(Unauthorized):
        permissions_of(state, ada)
    assert access.organizations_of(state, id_) == []


def test_users_of_other_organizations_are_unknown(state, org):
    id_ = join(state, org)
    other = new_organization(state, "other")

    with pytest.raises(NotFound):
        users.get_user(state, other, id_)
    assert users.list_users(state, other, Page(10), []) == {"data": []}
    assert users.list_users(state, org, Page(10), [NOBODY]) == {"data": []}
    with pytest.raises(Unauthorized):
        permissions_of(state, signed_in(state, other))


def test_groups_of_a_user_are_the_direct_ones_or_all(state, org):
    id_ = join(state, org)
    outer, inner = group(state, org, name="outer"), group(state, org, name="inner")
    add(state, org, "user", outer, inner, "group")
    add(state, org, "user", inner, id_)

    direct = users.user_groups(state, org, id_, inherited=False)
    assert [each.entity.name for each in direct] == ["inner"]
    every = users.user_groups(state, org, id_, inherited=True)
    assert {each.entity.name for each in every} == {"inner", "outer"}


# --- Support


def test_the_support_enters_only_while_it_is_let_in(state, org, clock):
    elsewhere = new_organization(state, "support")
    id_ = join(state, elsewhere, m3terUser=True)
    helper = signed_in(state, org)
    assert not users.get_user(state, elsewhere, id_)["supportUser"]
    with pytest.raises(Unauthorized):
        permissions_of(state, helper)
    users.make_support_user(state, "ADA@example.com", support_user=True)
    with pytest.raises(Unauthorized):
        permissions_of(state, helper)
    # Before the session of the support ends by itself.
    until = clock() + timedelta(minutes=5)
    opened = access.set_support_access(
        state, org, "test", SupportAccess(dt_end_support_users_access=until), None
    )
    grant(state, org, SUPPORT, allow("config:retrieve"), type=PrincipalType.SUPPORTUSERS)

    assert permissions_of(state, helper).allows("config:retrieve", "meter")
    assert org in {each for each, _ in access.organizations_of(state, id_)}
    assert access.support_access(state, org) == opened
    with pytest.raises(Invalid):
        access.set_support_access(
            state, org, "test", SupportAccess(dt_end_support_users_access=until), None
        )
    clock.advance(minutes=5)
    for each in (helper, signed_in(state, org)):
        with pytest.raises(Unauthorized):
            permissions_of(state, each)


def test_a_session_is_that_of_its_person_alone(state, org):
    ada = join(state, org, m3terUser=True)
    join(state, org, "bob@example.com", m3terUser=True)
    bob = signed_in(state, org, "bob@example.com")
    permissions_of(state, bob)

    with pytest.raises(Unauthorized):
        permissions_of(state, Principal(PrincipalType.USER, ada, org, bob.credential))


def test_only_a_known_person_becomes_support(state):
    with pytest.raises(NotFound):
        users.make_support_user(state, "nobody@example.com", support_user=True)


def test_who_was_no_support_stays_outside(state, org, clock):
    elsewhere = new_organization(state, "elsewhere")
    join(state, elsewhere, m3terUser=True)
    until = clock().replace(day=2)
    opened = SupportAccess(dt_end_support_users_access=until)
    access.set_support_access(state, org, "test", opened, None)

    with pytest.raises(Unauthorized):
        permissions_of(state, signed_in(state, org))
