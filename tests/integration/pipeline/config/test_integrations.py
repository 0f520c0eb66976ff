import pytest

from meterlake.model.configuration.integrations import WebhookDestination
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import BY_NAME
from meterlake.model.values.ids import derived_id
from meterlake.pipeline.config import entities, integrations
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.settings import Settings
from meterlake.stores.state.core.pages import Page
from tests.organizations import new_organization, open_new

WEBHOOKS = BY_NAME["webhooks"]
SECRET = "the secret of the webhook"
WEBHOOK = {
    "name": "Chat",
    "description": "Where people look",
    "url": "https://hooks.example.com/",
    "credentials": {"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": SECRET},
}
HERE = {"url": "http://127.0.0.1:9000/"}


@pytest.fixture
def stores(tmp_path, request):
    allowed = getattr(request, "param", False)
    settings = Settings(home=tmp_path / "home", webhook_loopback=allowed, _env_file=None)
    with open_new(settings) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return new_organization(stores.state)


@pytest.fixture
def webhook(stores, org):
    return integrations.create_webhook(
        stores.organization(org), "a", ResourceRef(WEBHOOKS, {}), WEBHOOK
    )


def stored(organization):
    with organization.reading() as reader:
        (record,) = reader.all(WebhookDestination)
        return record


def created(organization, resource, **document):
    return entities.create(organization, "a", ResourceRef(BY_NAME[resource], {}), document)


def test_the_machine_itself_is_refused(stores, org, webhook):
    organization = stores.organization(org)
    with pytest.raises(Invalid, match="webhook_loopback"):
        integrations.create_webhook(organization, "a", ResourceRef(WEBHOOKS, {}), WEBHOOK | HERE)
    place = ResourceRef(WEBHOOKS, {}, webhook["id"])
    with pytest.raises(Invalid, match="webhook_loopback"):
        integrations.update_webhook(organization, "a", place, WEBHOOK | HERE | {"version": 1})


@pytest.mark.parametrize("stores", [True], indirect=True)
def test_the_machine_itself_is_accepted_where_the_settings_say_so(stores, org):
    made = integrations.create_webhook(
        stores.organization(org), "a", ResourceRef(WEBHOOKS, {}), WEBHOOK | HERE
    )

    assert made["url"] == HERE["url"]


def test_a_url_that_is_no_text_is_refused(stores, org):
    with pytest.raises(Invalid, match="url"):
        integrations.create_webhook(
            stores.organization(org), "a", ResourceRef(WEBHOOKS, {}), WEBHOOK | {"url": 1}
        )


def test_a_secret_is_stored_sealed_and_shown_masked(stores, org, webhook):
    sealed = stored(stores.organization(org)).entity.credentials.secret

    assert SECRET not in str(webhook)
    assert sealed != SECRET
    assert stores.secrets.decrypt(sealed) == SECRET


def test_a_webhook_is_switched_off_and_on(stores, org, webhook):
    organization = stores.organization(org)
    sealed = stored(organization).entity.credentials.secret

    off = integrations.set_webhook_active(organization, "b", webhook["id"], active=False)
    same = integrations.set_webhook_active(organization, "b", webhook["id"], active=False)
    on = integrations.set_webhook_active(organization, "b", webhook["id"], active=True)

    assert [each["active"] for each in (off, same, on)] == [False, False, True]
    assert [each["version"] for each in (off, same, on)] == [2, 2, 3]
    assert SECRET not in str(off)
    assert stored(organization).entity.credentials.secret == sealed
    with pytest.raises(NotFound):
        integrations.set_webhook_active(organization, "b", derived_id("none"), active=True)


def test_integrations_are_found_by_what_they_hand_over(stores, org, webhook):
    organization = stores.organization(org)
    rule = created(
        *(organization, "notificationConfigurations"),
        name="Due",
        code="due",
        description="d",
        eventName="billing.bill.created",
    )
    first = created(
        organization,
        "integrationConfigs",
        entityType="Notification",
        entityId=rule["id"],
        destination="Webhook",
        destinationId=webhook["id"],
    )

    def found(**wanted):
        return integrations.integrations_of_type(organization, wanted, Page(10))

    assert found(entityType="Notification")["id"] == first["id"]
    assert len(found(entityType="Notification", destinationId=webhook["id"])["data"]) == 1
    for wanted in ({"entityType": "Notification", "entityId": "2"}, {"entityType": "Plan"}):
        with pytest.raises(NotFound, match=f"entity type '{wanted['entityType']}'"):
            found(**wanted)


def test_mappings_are_found_from_both_ends(stores, org):
    organization = stores.organization(org)
    names = {"m3terEntity": "Account", "externalSystem": "S", "externalTable": "T"}
    for number in ("1", "2"):
        created(organization, "externalMappings", **names, m3terId=number, externalId=f"x{number}")

    def found(**wanted):
        page = integrations.mappings_of(organization, wanted, Page(10))
        return [each["m3terId"] for each in page["data"]]

    assert found(m3terEntity="Account", m3terId="1") == ["1"]
    assert found(externalSystem="S", externalTable="T", externalId="x2") == ["2"]
    assert sorted(found(externalSystem="S")) == ["1", "2"]
    assert found(m3terEntity="Plan", m3terId="1") == []
