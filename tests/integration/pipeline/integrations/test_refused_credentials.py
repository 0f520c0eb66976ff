"""Integrations are not authorized from the first refusal on, until a try works or they change."""

from datetime import timedelta

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.apply_configuration import ApplyOptions, apply
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.pipeline.integrations.life_cycle import disable_integration, enable_integration
from meterlake.stages.config.diff import Document
from meterlake.stores.state.integrations.health import refusing_destinations, write_refusal
from tests.doubles.receivers import running_receiver
from tests.sent_bills import create, home_with_bills, integrate, make_bills, send_bills

KEY = {"type": "STATIC_API_KEY", "apiKey": "the key"}
CONFIGS = BY_NAME["integrationConfigs"]
MASK = "********"


@pytest.fixture
def home(tmp_path):
    with home_with_bills(tmp_path) as opened:
        yield opened


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def is_authorized(home, config):
    ref = ResourceRef(CONFIGS, {}, config["id"])
    return entities.retrieve(home.organization, ref)["authorized"]


def update(home, config, **changes):
    names = ("entityType", "destination", "configData", "credentials", "version")
    document = {name: config[name] for name in names} | changes
    ref = ResourceRef(CONFIGS, {}, config["id"])
    return entities.update(home.organization, "test", ref, document)


@pytest.mark.parametrize("status", [401, 403])
def test_the_first_refusal_counts_and_so_does_the_next_success(home, receiver, status):
    receiver.answers["/bills"] = status
    config = integrate(home, "HTTP", KEY, url=receiver.url("/bills"))
    make_bills(home)
    assert is_authorized(home, config) is True

    refused = send_bills(home)
    assert {each.status for each in refused} == {RunStatus.AWAITING_RETRY}
    assert is_authorized(home, config) is False

    receiver.answers["/bills"] = 500
    home.clock.time += timedelta(minutes=1)
    send_bills(home)
    assert is_authorized(home, config) is False

    receiver.answers["/bills"] = 200
    home.clock.time += timedelta(minutes=10)
    assert {each.status for each in send_bills(home)} == {RunStatus.COMPLETE}
    assert is_authorized(home, config) is True


@pytest.mark.long
def test_only_another_way_to_sign_in_makes_up_for_a_refusal(home, receiver):
    receiver.answers["/bills"] = 401
    config = integrate(home, "HTTP", KEY, url=receiver.url("/bills"))
    make_bills(home)
    send_bills(home)
    masked = config["credentials"]
    assert masked["apiKey"] == MASK
    named = update(home, config, name="Another name")
    assert named["authorized"] is False
    disable_integration(home.organization, "test", config["id"])
    assert enable_integration(home.organization, "test", config["id"])["authorized"] is False

    changed = update(home, named, credentials=KEY | {"apiKey": "another"})
    assert changed["authorized"] is True


def test_a_file_that_changes_credentials_makes_up_for_a_refusal(home, receiver):
    config = integrate(home, "HTTP", KEY, url=receiver.url("/bills"))
    refuse(home, config["id"])
    document = {"entityType": "Bill", "destination": "HTTP", "configData": config["configData"]}
    for key, authorized in (("the key", False), ("another", True)):
        credentials = KEY | {"apiKey": key}
        content = {"integrationConfigs": [{**document, "credentials": credentials}]}
        allowed = ApplyOptions(addresses=address_policy(home.stores.settings))
        documents = [Document("f", content)]
        apply(home.stores.state, home.org_id, documents, "test", allowed)
        assert is_authorized(home, config) is authorized


def test_credentials_that_are_shared_are_changed_for_all(home, receiver):
    owner = integrate(home, "HTTP", KEY, url=receiver.url("/1"))
    shared = {"integrationCredentialsId": owner["integrationCredentialsId"]}
    data = {"configData": {"url": receiver.url("/2")}}
    names = {"entityType": "Bill", "destination": "HTTP"}
    sharer = create(home, "integrationConfigs", **names, **data, **shared)
    refuse(home, sharer["id"])
    assert is_authorized(home, sharer) is False

    update(home, owner, credentials=KEY | {"apiKey": "another"})
    assert is_authorized(home, sharer) is True


def test_a_refusal_of_what_was_changed_meanwhile_does_not_count(home, receiver):
    config = integrate(home, "HTTP", KEY, url=receiver.url("/bills"))
    began = home.stores.now() - timedelta(seconds=1)
    refuse(home, config["id"], began)

    with home.organization.reading() as reader:
        found = refusing_destinations(reader.connection, home.org_id, [config["id"]])
    assert found == set()


def refuse(home, id_, began=None):
    with home.organization.transaction("test") as transaction:
        moment = began or home.stores.now()
        write_refusal(transaction.connection, home.org_id, id_, moment)
