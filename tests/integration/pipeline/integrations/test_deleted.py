"""What is deleted although integrations name it, and integrations that are deleted themselves."""

import pytest

from meterlake.model.configuration.integrations import ExternalMapping, IntegrationConfig, RunStatus
from meterlake.model.errors import Conflict, NotFound, StillReferenced
from meterlake.model.resources import BY_NAME
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.apply_configuration import ApplyOptions, apply
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.integrations.life_cycle import MappingChoice, delete_integration
from tests.deliveries import runs_of, webhook_document
from tests.doubles.receivers import respond, running_receiver
from tests.sent_bills import (
    account_id,
    create,
    home_with_bills,
    integrate,
    make_bills,
    send_bills,
)

URL = "https://books.example.com/in"


@pytest.fixture
def home(tmp_path):
    with home_with_bills(tmp_path) as opened:
        yield opened


@pytest.fixture
def receiver():
    with running_receiver() as found:
        made = b'{"id": "inv-1", "url": "https://x.test/1"}'
        found.answers["/made"] = lambda handler: respond(handler, 200, made)
        yield found


def ref(name, id_=None):
    return ResourceRef(BY_NAME[name], {}, id_)


def delete(home, name, id_):
    return entities.delete(home.organization, "test", ref(name, id_))


def mappings(home):
    with home.organization.reading() as reader:
        found = reader.all(ExternalMapping)
    return sorted((each.entity.external_id, each.entity.integration_config_id) for each in found)


def told_by(home, **changes):
    """A notification, and the integration that tells of it."""
    fields = {"name": "Due", "code": "due", "description": "d", "alwaysFireEvent": True}
    event = {"eventName": "billing.bill.created"}
    notification = create(home, "notificationConfigurations", **fields, **event, **changes)
    hook = create(home, "webhooks", **webhook_document("https://hooks.example.com/in"))
    system = {"destination": "WEBHOOK", "destinationId": hook["id"], "name": "Tell"}
    about = {"entityType": "Notification", "entityId": notification["id"]}
    return notification, create(home, "integrationConfigs", **system, **about)


def test_a_notification_that_an_integration_names_is_kept(home):
    notification, integration = told_by(home)

    with pytest.raises(StillReferenced, match=f"IntegrationConfig '{integration['id']}'"):
        delete(home, "notificationConfigurations", notification["id"])
    delete(home, "integrationConfigs", integration["id"])
    assert delete(home, "notificationConfigurations", notification["id"])["code"] == "due"


@pytest.mark.parametrize("member", ["accountIds", "restrictedAccountIds"])
def test_an_account_that_an_integration_lists_is_kept(home, member):
    account = create(home, "accounts", name="New", code="new", emailAddress="a@new.example")
    integration = integrate(home, "HTTP", url=URL, **{member: [account["id"].upper()]})

    with pytest.raises(StillReferenced, match=f"IntegrationConfig '{integration['id']}'"):
        delete(home, "accounts", account["id"])


def test_files_prune_a_notification_with_its_integration_only(home):
    told_by(home)
    alone = {"notificationConfigurations": [], "webhooks": None}
    prune = ApplyOptions(prune=True)

    with pytest.raises(StillReferenced, match="'due' is still referenced by IntegrationConfig"):
        apply(home.stores.state, home.org_id, [Document("a", alone)], "test", prune)
    both = {**alone, "integrationConfigs": []}
    changes = apply(home.stores.state, home.org_id, [Document("a", both)], "test", prune)
    assert [each.kind for each in changes] == ["integrationConfigs", "notificationConfigurations"]


@pytest.mark.parametrize(
    ("change", "said"),
    [({"active": False}, "not active"), (None, "no notification")],
    ids=["off", "gone"],
)
def test_an_integration_without_its_notification_says_so(home, change, said):
    notification, integration = told_by(home)
    at = ref("notificationConfigurations", notification["id"])
    if change is None:
        # As homes have it from before, when it could be deleted.
        with home.organization.transaction("test") as transaction:
            transaction.delete(at.resource.entity, notification["id"])
    else:
        entities.update(home.organization, "test", at, {**notification, **change})

    shown = entities.retrieve(home.organization, ref("integrationConfigs", integration["id"]))
    assert shown["enabled"] is False
    assert said in shown["error"]


def sent(home, receiver):
    """An integration that has sent two bills, each of which has a mapping."""
    config = integrate(home, "HTTP", url=receiver.url("/made"), idPath="id")
    make_bills(home)
    assert {each.status for each in send_bills(home)} == {RunStatus.COMPLETE}
    assert mappings(home) == [("inv-1", config["id"])] * 2
    return config


@pytest.mark.parametrize(
    ("choice", "left"),
    [(MappingChoice.KEEP, [("inv-1", None)] * 2), (MappingChoice.DELETE, [])],
    ids=str,
)
def test_an_integration_that_has_sent_bills_is_deleted(home, receiver, choice, left):
    config = sent(home, receiver)

    gone = delete_integration(home.organization, "test", config["id"], choice)

    assert gone["id"] == config["id"]
    assert mappings(home) == left
    assert len(runs_of(home.organization, config_id=config["id"])) == 2
    with pytest.raises(NotFound):
        delete_integration(home.organization, "test", config["id"])


@pytest.mark.long
def test_files_prune_an_integration_that_has_sent_bills(home, receiver):
    sent(home, receiver)
    document = Document("a", {"integrationConfigs": []})

    apply(home.stores.state, home.org_id, [document], "test", ApplyOptions(prune=True))

    assert mappings(home) == [("inv-1", None)] * 2
    with home.organization.reading() as reader:
        assert reader.all(IntegrationConfig) == []


@pytest.mark.long
def test_a_mapping_that_would_say_something_else_than_another_one_does_not_stay(home, receiver):
    config = sent(home, receiver)
    with home.organization.reading() as reader:
        bill = reader.all(ExternalMapping)[0].entity.m3ter_id
    there = {"externalSystem": "HTTP", "externalTable": "Bill", "externalId": "inv-9"}
    create(home, "externalMappings", m3terEntity="Bill", m3terId=bill, **there)

    with pytest.raises(Conflict, match=r"cannot stay .* 'inv-9' in Bill of HTTP already"):
        delete_integration(home.organization, "test", config["id"])
    assert len(mappings(home)) == 3
    delete_integration(home.organization, "test", config["id"], MappingChoice.DELETE)
    assert mappings(home) == [("inv-9", None)]


@pytest.mark.long
def test_an_integration_is_not_deleted_while_it_sends(home, receiver):
    refused = []

    def answer(handler):
        try:
            delete_integration(home.organization, "test", config["id"])
        except Conflict as error:
            refused.append(str(error))
        respond(handler, 200, b"{}")

    receiver.answers["/slow"] = answer
    config = integrate(
        home, "HTTP", url=receiver.url("/slow"), accountIds=[account_id(home, "acme")]
    )
    make_bills(home)
    send_bills(home)

    assert [each.partition(" is ")[2] for each in refused] == [
        "being sent; try again when it has ended"
    ]
    delete_integration(home.organization, "test", config["id"])
