"""The host of a webhook is looked at when it is saved, and again when it is called."""

import socket

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import integrations
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.settings import Settings
from tests.deliveries import add_runs, content_for, new_webhook, run_of, send_due, tries
from tests.doubles.receivers import running_receiver
from tests.organizations import new_organization, open_new

NAME = "hooks.example.com"


@pytest.fixture
def names(monkeypatch):
    """What names resolve to; others resolve to nothing."""
    known = {}

    def resolve(host, port, *_, **__):
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return known


def opened(tmp_path, **settings):
    settings = {"webhook_must_resolve": True, **settings}
    return open_new(Settings(home=tmp_path / "home", _env_file=None, **settings))


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1"], ["93.184.216.34", "10.0.0.1"]]
)
def test_a_name_that_leads_inside_is_not_saved(tmp_path, names, addresses):
    names[NAME] = addresses

    with opened(tmp_path) as stores:
        org = new_organization(stores.state)
        with pytest.raises(Invalid, match="url"):
            new_webhook(stores.organization(org), f"https://{NAME}/")


def test_a_name_that_leads_nowhere_is_saved_only_where_the_settings_say_so(tmp_path, names):
    assert names == {}
    with opened(tmp_path) as stores:
        org = new_organization(stores.state)
        with pytest.raises(Invalid, match="has an address now"):
            new_webhook(stores.organization(org), f"https://{NAME}/")
    with opened(tmp_path / "other", webhook_must_resolve=False) as stores:
        assert new_webhook(stores.organization(new_organization(stores.state)), f"https://{NAME}/")


OAUTH = {"type": "OAUTH_CLIENT_CREDENTIALS", "clientId": "me", "clientSecret": "x"}
TOKENS = "login.example.com"


def integration(url=f"https://{NAME}/", token_url=f"https://{TOKENS}/token"):
    credentials = OAUTH | {"tokenUrl": token_url}
    document = {"entityType": "Bill", "destination": "HTTP", "configData": {"url": url}}
    return document | {"credentials": credentials}


def save(organization, document, id_=None):
    ref = ResourceRef(BY_NAME["integrationConfigs"], {}, id_)
    verb = integrations.update_integration if id_ else integrations.create_integration
    return verb(organization, "test", ref, document)


@pytest.mark.parametrize(
    ("host", "field"), [(NAME, r"configData\.url"), (TOKENS, r"credentials\.tokenUrl")]
)
def test_an_integration_whose_host_leads_inside_is_not_saved(tmp_path, names, host, field):
    names |= {NAME: ["93.184.216.34"], TOKENS: ["93.184.216.35"]}
    with opened(tmp_path) as stores:
        org = new_organization(stores.state)
        organization = stores.organization(org)
        made = save(organization, integration())
        again = integration() | {"version": 1}
        names[host] = ["93.184.216.34", "10.0.0.1"]
        for document, id_ in ((integration(), None), (again, made["id"])):
            with pytest.raises(Invalid, match=rf"{field}.*webhook_private"):
                save(organization, document, id_)


@pytest.mark.parametrize(
    ("host", "field"), [(NAME, r"configData\.url"), (TOKENS, r"credentials\.tokenUrl")]
)
def test_an_integration_whose_host_has_no_address_is_saved_where_the_settings_say_so(
    tmp_path, names, host, field
):
    names |= {NAME: ["93.184.216.34"], TOKENS: ["93.184.216.35"]}
    del names[host]
    with opened(tmp_path) as stores:
        org = new_organization(stores.state)
        with pytest.raises(Invalid, match=rf"{field}.*has an address now"):
            save(stores.organization(org), integration())
    with opened(tmp_path / "other", webhook_must_resolve=False) as stores:
        assert (
            save(stores.organization(new_organization(stores.state)), integration())["version"] == 1
        )


@pytest.mark.parametrize("data", [None, [], {}, {"url": 1}, {"url": "x"}], ids=str)
def test_an_integration_without_a_host_is_refused_by_its_rules(tmp_path, names, data):
    assert names == {}
    document = {"entityType": "Bill", "destination": "HTTP", "configData": data}
    with opened(tmp_path) as stores:
        org = new_organization(stores.state)
        with pytest.raises(Invalid, match="configData"):
            save(stores.organization(org), document)


def test_a_name_that_led_outside_when_it_was_saved_is_not_called_when_it_leads_inside(
    tmp_path, names
):
    names[NAME] = ["93.184.216.34"]
    with running_receiver() as receiver, opened(tmp_path) as stores:
        org = new_organization(stores.state)
        organization = stores.organization(org)
        webhook = new_webhook(organization, f"https://{NAME}:{receiver.port}/200")
        [id_] = add_runs(organization, [content_for(webhook)])
        names[NAME] = ["127.0.0.1"]

        send_due(stores)

        run, [tried] = run_of(organization, id_), tries(organization, id_)
        assert run.status is RunStatus.ERROR
        assert NAME in tried.error
        assert tried.status_code is None
        assert receiver.received == []
