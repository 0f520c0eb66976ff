"""A policy in plain words says what the API permits: all of it, and no more."""

from collections import defaultdict

import pytest

from meterlake.api.routes import OPERATIONS
from meterlake.console.access.policy_words import DEEDS, read_policy
from meterlake.model.configuration.permissions import ANYTHING, READ_ONLY
from meterlake.pipeline.access.access import statement_documents
from tests.people import allow, deny

ASKING = [each for each in OPERATIONS if each.action != ANYTHING]
# Pairs of an action and a type of resource, each of which opens operations.
PERMISSIONS = sorted(
    {
        (action, each.resource)
        for each in ASKING
        for action in (each.action, each.or_action)
        if action is not None
    }
)


def alone(action, resource):
    """A policy of one permission."""
    return [allow(action, f"{action.partition(':')[0]}:{resource}/*")]


def opened(*held):
    """The operations that the API permits to the holder of some permissions."""
    return {
        each.id
        for each in ASKING
        if {(each.action, each.resource), (each.or_action, each.resource)} & set(held)
        and (each.reads is None or (each.reads, each.resource) in held)
    }


def test_every_permission_of_the_api_belongs_to_one_deed():
    deeds = defaultdict(list)
    for deed in DEEDS:
        for need in deed.needs:
            deeds[need].append(deed.words)

    assert {need: words for need, words in deeds.items() if len(words) > 1} == {}
    assert sorted(deeds) == PERMISSIONS
    assert len({deed.words for deed in DEEDS}) == len(DEEDS)


@pytest.mark.parametrize("permission", PERMISSIONS, ids=":".join)
def test_one_permission_is_said_by_the_deed_that_it_opens_and_by_no_other(permission):
    [deed] = [each for each in DEEDS if permission in each.needs]
    found = read_policy(alone(*permission))

    whole = len(deed.needs) == 1
    assert found.may == ((deed.words,) if whole else ())
    assert found.partly == (() if whole else (deed.words,))
    assert len(found.may_not) == len(DEEDS) - 1
    # What the operations read besides is said by the deed of reading.
    reads = {each.reads for each in ASKING if permission == (each.action, each.resource)} - {None}
    assert opened(permission, *((each, permission[1]) for each in reads))


@pytest.mark.parametrize("deed", DEEDS, ids=lambda each: each.words)
def test_who_may_do_a_deed_may_call_all_that_it_takes_and_who_may_not_nothing(deed):
    held = [statement for need in deed.needs for statement in alone(*need)]
    denied = [allow(), *({**each, "effect": "deny"} for each in held)]

    assert read_policy(held).may == (deed.words,)
    assert read_policy(held).partly == ()
    assert read_policy(denied).may_not == (deed.words,)
    assert read_policy(denied).partly == ()
    others = {each for each in PERMISSIONS if each not in deed.needs}
    # An export is begun by who may export either.
    of_two = {each.id for each in ASKING if each.or_action is not None}
    assert opened(*deed.needs)
    assert not opened(*deed.needs) & opened(*others) - of_two


@pytest.mark.parametrize(
    ("statements", "extent"),
    [
        ([allow("config:retrieve", "config:run/*")], "may"),
        ([allow("config:retrieve", "config:run/item/a")], "partly"),
        ([allow("config:retrieve", "config:run/group/a")], "partly"),
        ([allow("config:retrieve", "config:run/item/*")], "may"),
        # Who may read all of them may read this one anyhow.
        ([allow(), allow("config:retrieve", "config:run/item/a")], "may"),
        ([allow(), deny("config:retrieve", "config:run/item/a")], "partly"),
        ([allow(), deny("config:retrieve", "config:run/group/*")], "partly"),
        ([allow(), deny("config:retrieve", "config:run/*")], "may_not"),
        # Whom nothing allows it is not allowed it in part by a denial of one.
        ([deny("config:retrieve", "config:run/item/a")], "may_not"),
        ([allow("config:update", "config:run/*")], "may_not"),
    ],
)
def test_single_things_and_denials_are_said_as_the_api_takes_them(statements, extent):
    found = read_policy(statements)

    said = [name for name in ("may", "partly", "may_not") if "read runs" in getattr(found, name)]
    assert said == [extent]


def test_read_only_downloads_answers_and_settles_no_rejected_rows():
    found = read_policy(statement_documents(READ_ONLY.permission_policy))

    assert "ask questions of their own about usage and bills, and download the answers" in found.may
    assert found.partly == ()
    assert "send measurements, and requeue, dismiss and take up rejected rows" in found.may_not
    assert "export measurements to destinations" in found.may_not
    assert all(each.startswith(("read ", "see ", "ask ")) for each in found.may)
