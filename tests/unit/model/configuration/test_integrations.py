from decimal import Decimal

import pytest
from pydantic import ValidationError

from meterlake.model.configuration.integrations import (
    ExternalMapping,
    IntegrationConfig,
    WebhookDestination,
)
from meterlake.model.errors import Invalid, Required
from meterlake.model.resources import response
from meterlake.model.values import wire
from meterlake.model.values.problems import problems
from tests.entity_rules import refused, required
from tests.organizations import added, after

CREDENTIALS = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": "secret"}
WEBHOOK = {
    "name": "Chat",
    "description": "Where people look",
    "url": "https://hooks.example.com/x?y=z",
    "credentials": CREDENTIALS,
}
CONFIG = {"entityType": "Notification", "destination": "Webhook"}
MAPPING = {
    "m3terEntity": "Account",
    "m3terId": "1",
    "externalSystem": "Salesforce",
    "externalTable": "Account",
    "externalId": "00 1",
}


def webhook(url):
    return after(added("webhooks", **WEBHOOK | {"url": url}))


def test_what_is_required_is_what_the_contract_requires():
    assert required(WebhookDestination, WEBHOOK) == set(WEBHOOK)
    assert required(IntegrationConfig, CONFIG) == set(CONFIG)
    assert required(ExternalMapping, MAPPING) == set(MAPPING)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"type": "HTTP_BASIC"}, "type"),
        ({"apiKey": ""}, "apiKey"),
        ({"secret": ""}, "secret"),
        ({"destination": "FAX"}, "destination"),
    ],
)
def test_credentials_that_break_the_contract_are_refused(changes, place):
    credentials = CREDENTIALS | changes

    found = refused(WebhookDestination, WEBHOOK, credentials=credentials)

    assert found == {f"credentials.{place}"}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"apiKey": "key\r\nX-Evil: 1"}, "apiKey"),
        ({"apiKey": " key"}, "apiKey"),
        ({"secret": "whsec_no base 64"}, "secret"),
        ({"secret": "whsec_"}, "secret"),
        ({"secret": "whsec_QUJDRA"}, "secret"),
    ],
)
def test_credentials_that_no_receiver_can_verify_with_are_refused(changes, place):
    with pytest.raises(Invalid, match=rf"credentials\.{place}: '\*\*\*'"):
        after(added("webhooks", **WEBHOOK | {"credentials": CREDENTIALS | changes}))


@pytest.mark.parametrize(
    "changes",
    [{"secret": "whsec_QUJDRA=="}, {"secret": "wh of free text"}, {"apiKey": "a key, größer"}],
)
def test_credentials_that_receivers_can_verify_with_are_accepted(changes):
    after(added("webhooks", **WEBHOOK | {"credentials": CREDENTIALS | changes}))


def test_an_integration_of_webhooks_names_one():
    with pytest.raises(Required, match="destinationId"):
        after(added("integrationConfigs", **CONFIG))


def test_credentials_are_shown_as_the_contract_has_them():
    around = webhook(WEBHOOK["url"])
    (record,) = around.all(WebhookDestination)

    shown = response(record, around)["credentials"]

    assert shown["destination"] == "WEBHOOK"
    assert shown["destinationId"] == record.id
    assert shown["id"] not in {None, record.id}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"entityType": ""}, "entityType"),
        ({"entityType": "a b"}, "entityType"),
        ({"destination": "web.hook"}, "destination"),
        ({"configData": []}, "configData"),
        ({"configData": {"a": "\ud800"}}, "configData"),
        ({"configData": {"a\x00": 1}}, "configData"),
        ({"configData": {"a": [Decimal("1E+999")]}}, "configData"),
        ({"credentials": {}}, "credentials.type"),
        ({"credentials": {"type": "MAGIC"}}, "credentials.type"),
        ({"destinationId": "webhook"}, "destinationId"),
    ],
)
def test_an_integration_that_breaks_the_contract_is_refused(changes, place):
    assert refused(IntegrationConfig, CONFIG, **changes) == {place}


def test_the_data_of_an_integration_is_not_too_deep():
    deep = {}
    for _ in range(21):
        deep = {"a": deep}

    assert refused(IntegrationConfig, CONFIG, configData=deep) == {"configData"}
    assert IntegrationConfig.from_wire(CONFIG | {"configData": deep["a"]})


def test_the_data_of_an_integration_comes_back_as_it_was():
    data = {"a": [1, Decimal("0.10"), None, True, {"b": "c"}], "d": {}}
    config = IntegrationConfig.from_wire(CONFIG | {"configData": data})

    again = IntegrationConfig.from_wire(wire.loads(wire.dumps(config.to_wire())))

    assert again == config
    assert again.config_data == data


def test_an_integration_leads_to_a_webhook_that_exists():
    documents = [
        *added("webhooks", **WEBHOOK),
        *added("webhooks", **WEBHOOK | {"name": "Pager", "code": "pager"}),
        *added("integrationConfigs", **CONFIG | {"destinationId": "pager"}),
    ]
    around = after(documents)
    (config,) = around.all(IntegrationConfig)

    shown = response(config, around)

    assert (shown["enabled"], shown["authorized"], shown["status"]) == (True, True, "WAITING")
    with pytest.raises(Invalid, match="an existing WebhookDestination"):
        after(added("integrationConfigs", **CONFIG | {"destinationId": "fax"}))


@pytest.mark.parametrize("name", sorted(MAPPING))
@pytest.mark.parametrize("value", ["", " a", "a\tb", None])
def test_a_mapping_has_all_of_its_names(name, value):
    assert refused(ExternalMapping, MAPPING, **{name: value}) == {name}


def test_a_mapping_is_written_under_the_names_of_the_contract():
    assert ExternalMapping.from_wire(MAPPING).to_wire() == MAPPING


@pytest.mark.parametrize(
    "secret", ["hunter2" * 1000, "hunter2\x00", "hunter2\ud800", ["hunter2"], {"x": "hunter2"}]
)
def test_a_refused_secret_is_not_repeated(secret):
    with pytest.raises(ValidationError) as error:
        WebhookDestination.from_wire({**WEBHOOK, "credentials": {**CREDENTIALS, "secret": secret}})

    (problem,) = problems(error.value)

    assert problem.args[0] == "credentials.secret"
    assert "hunter2" not in str(problem)


def test_the_one_type_of_credentials_is_named_by_its_value():
    with pytest.raises(ValidationError) as error:
        WebhookDestination.from_wire({**WEBHOOK, "credentials": {**CREDENTIALS, "type": "X"}})

    (problem,) = problems(error.value)

    assert str(problem) == "credentials.type: 'X' is not allowed: it must be 'M3TER_SIGNED_REQUEST'"
