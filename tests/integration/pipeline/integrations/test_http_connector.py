"""The destination HTTP: bodies from templates, ways to sign in, what the answer says."""

import base64
import json
import time
from decimal import Decimal
from ipaddress import ip_address

import pytest

from meterlake.model.bills.template_members import check_members
from meterlake.model.configuration.integrations import ExternalMapping, IntegrationConfig, RunStatus
from meterlake.model.errors import Invalid, Required
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.pipeline.integrations.connectors import http
from meterlake.pipeline.integrations.connectors.http import render_json
from meterlake.pipeline.integrations.http_client import HttpClient
from meterlake.pipeline.integrations.life_cycle import enable_integration
from tests.deliveries import runs_of, send_due
from tests.doubles.receivers import respond, running_receiver
from tests.sent_bills import (
    account_id,
    all_tries,
    create,
    home_with_bills,
    integrate,
    make_bills,
    make_runs,
    put_bill,
    send_bills,
)

SECRET = "the very secret"
PATHS = ("/200", "/204")
BASIC = {"type": "HTTP_BASIC", "username": "ada", "password": SECRET}
TEMPLATE = """{"customer": {{ account.code | tojson }}, "total": {{ bill.billTotal | tojson }},
"lines": [{% for line in bill.lineItems %}{{ line.subtotal | tojson }}{{ "," if not loop.last }}{% endfor %}]}"""


@pytest.fixture
def home(tmp_path):
    with home_with_bills(tmp_path) as opened:
        yield opened


@pytest.fixture
def receiver():
    with running_receiver() as found:
        found.answers["/made"] = lambda handler: respond(
            handler, 200, b'{"data": [{"id": "inv-1", "url": "https://x.test/1"}]}'
        )
        yield found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, r"configData\.url is required"),
        ({"url": "ftp://x.test"}, r"configData\.url"),
        ({"url": "https://x.test", "methd": "PUT"}, r"configData\.methd.*one of.*method"),
        ({"url": "https://x.test", "method": "GET"}, r"configData\.method"),
        ({"url": "https://x.test", "template": "{{ bill"}, r"configData\.template.*Jinja2"),
        ({"url": "https://x.test", "template": "{{ bill.totl }}"}, r"configData\.template.*`totl`"),
        ({"url": "https://x.test", "keyHeader": "a b"}, r"configData\.keyHeader"),
        ({"url": "https://x.test", "keyHeader": "Content-Length"}, r"configData\.keyHeader"),
        ({"url": "http://169.254.169.254/"}, r"configData\.url: 'http://169"),
        ({"url": "https://10.0.0.1/"}, r"configData\.url.*webhook_private"),
        ({"url": "https://x.test", "accountIds": ["x"]}, r"configData\.accountIds\[0\]"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_by_name(home, data, said):
    with pytest.raises(Invalid, match=said):
        integrate(home, "HTTP", **data)


@pytest.mark.parametrize("url", ["x", "http://169.254.169.254/", "https://localhost/"])
def test_a_token_comes_from_where_requests_may_lead(home, url):
    names = {"clientId": "me", "clientSecret": SECRET, "tokenUrl": url}

    with pytest.raises(Invalid, match=rf"credentials\.tokenUrl: '{url}'"):
        integrate(home, "HTTP", {"type": "OAUTH_CLIENT_CREDENTIALS", **names}, url="https://x.test")


def test_a_key_that_no_header_can_carry_is_refused(home):
    key = {"type": "STATIC_API_KEY", "apiKey": f"{SECRET}\n"}

    with pytest.raises(Invalid, match=r"credentials\.apiKey: '\*\*\*'"):
        integrate(home, "HTTP", key, url="https://x.test")


def test_credentials_without_their_fields_are_refused(home):
    with pytest.raises(Required, match=r"credentials\.password"):
        integrate(home, "HTTP", {"type": "HTTP_BASIC", "username": "a"}, url="https://x.test")


@pytest.mark.parametrize(
    "template",
    [
        "{% set x = bill %}{{ x }}",
        "{{ 'a' * 1000000000 }}",
        "{{ 'a' ~ 'b' }}",
        "{{ range(10) }}",
        "{{ bill.clear() }}",
        "{% macro m() %}{{ m() }}{% endmacro %}",
        "{% include 'x' %}",
        "{{ bill | pprint }}",
        "{{ 'a'" + " | list | string" * 13 + " }}",
        "{{ " + "9" * 6000 + " }}",
    ],
    ids=lambda template: template[:24],
)
def test_a_template_that_does_more_than_it_may_is_refused(home, template):
    """Before anything of it is calculated: the constants of some would fill gigabytes."""
    before = time.process_time()
    with pytest.raises(Invalid, match="template"):
        integrate(home, "HTTP", url="https://x.test", template=template)
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    "template", ["[1, ", "{{ bill.nothing | tojson }}", "{{ bill.a }}", "{{ bill.__class__ }}"]
)
def test_what_is_no_json_is_not_sent(template):
    with pytest.raises(Invalid, match="template"):
        render_json(template, {"bill": {"a": "text"}})


@pytest.mark.parametrize("rule", ["round(900000000, 'floor')", "round(-900000000)", "round('a')"])
def test_numbers_are_rounded_to_digits_that_somebody_reads(rule):
    before = time.process_time()
    with pytest.raises(Invalid, match="template"):
        render_json(f"{{{{ a | {rule} }}}}", {"a": 5})
    assert time.process_time() - before < 5
    assert render_json("{{ a | round(1) }}", {"a": Decimal("1.25")}) == b"1.2"


def test_a_template_has_an_end_in_time_and_size(monkeypatch):
    monkeypatch.setattr(http, "SECONDS_MAX", 0.2)
    loop = "{% for a in r %}{% for b in r %}{% for c in r %}{% endfor %}{% endfor %}{% endfor %}1"
    before = time.process_time()
    with pytest.raises(Invalid, match="seconds"):
        render_json(loop, {"r": list(range(10_000))})
    assert time.process_time() - before < 20
    monkeypatch.setattr(http, "BODY_MAX", 1000)
    with pytest.raises(Invalid, match="characters"):
        render_json("[{% for a in r %}1,{% endfor %}1]", {"r": list(range(10_000))})


def test_amounts_keep_their_digits():
    amount = Decimal("12345678901234567890.123456789012")

    assert render_json("{{ a | tojson }}", {"a": amount}) == str(amount).encode()


def test_a_bill_is_sent_as_its_template_says(home, receiver):
    data = {"template": TEMPLATE, "idPath": "data.0.id", "urlPath": "data.0.url"}
    config = integrate(home, "HTTP", BASIC, url=receiver.url("/made"), **data)
    make_bills(home)
    runs = send_bills(home)

    bodies = sorted((json.loads(each.body) for each in receiver.received), key=str)
    assert bodies == [
        {"customer": "acme", "total": 73.5, "lines": [42.5, 31]},
        {"customer": "bolt", "total": 131, "lines": [100, 31]},
    ]
    basic = base64.b64encode(f"ada:{SECRET}".encode()).decode()
    assert {each.headers["authorization"] for each in receiver.received} == {f"Basic {basic}"}
    keys = {each.headers["idempotency-key"] for each in receiver.received}
    assert keys == {each.content.run_key for each in runs}
    assert {each.status for each in runs} == {RunStatus.COMPLETE}
    assert {(each.external_id, each.url) for each in runs} == {("inv-1", "https://x.test/1")}
    with home.organization.reading() as reader:
        mappings = [each.entity for each in reader.all(ExternalMapping)]
        [sealed] = reader.all(IntegrationConfig)
    assert {(each.m3ter_entity, each.external_id) for each in mappings} == {("Bill", "inv-1")}
    assert {each.integration_config_id for each in mappings} == {config["id"]}
    assert SECRET not in sealed.entity.credentials.password
    assert not {SECRET, basic} & set(all_tries(home).split())
    assert SECRET not in str(config) + all_tries(home)


@pytest.mark.parametrize("stored", [None, "*"], ids=["written back", "stored before"])
def test_an_integration_for_all_bills_sends_them_all_the_same(home, receiver, stored):
    shown = integrate(home, "HTTP", BASIC, url=receiver.url("/200"))
    ref = ResourceRef(BY_NAME["integrationConfigs"], {}, shown["id"])
    if stored is None:
        entities.update(home.organization, "test", ref, shown)
    else:
        with home.organization.transaction("test") as transaction:
            record = transaction.get(IntegrationConfig, shown["id"])
            entity = record.entity.model_copy(update={"entity_id": stored})
            transaction.update(record.id, record.version, entity)
    make_bills(home)

    assert [each.status for each in send_bills(home)] == [RunStatus.COMPLETE] * 2
    assert len(receiver.received) == 2


def paths(value, before):
    """The expressions of a template that lead to everything in a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{before}['{name}']"
            yield from paths(inner, f"{before}['{name}']")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, f"{before}[{number}]")


@pytest.mark.long
def test_every_member_that_is_sent_can_be_named(home, receiver):
    whole = '{"bill": {{ bill | tojson }}, "account": {{ account | tojson }}}'
    integrate(home, "HTTP", url=receiver.url("/200"), template=whole)
    make_bills(home)
    send_bills(home)
    sent = json.loads(receiver.received[0].body)

    named = [each for root in ("bill", "account") for each in paths(sent[root], root)]
    assert "bill['lineItems'][0]['usagePerPricingBand'][0]['unitPrice']" in named
    for each in named:
        check_members("configData.template", f"{{{{ {each} }}}}")


def test_a_template_of_before_that_names_nothing_is_kept_and_no_new_one(home):
    made = integrate(home, "HTTP", url="https://x.test")
    old = "{{ bill.totl | default(1) }}"
    with home.organization.transaction("test") as transaction:
        record = transaction.get(IntegrationConfig, made["id"])
        data = {**record.entity.config_data, "template": old}
        entity = record.entity.model_copy(update={"config_data": data})
        transaction.update(record.id, record.version, entity)
    ref = ResourceRef(BY_NAME["integrationConfigs"], {}, made["id"])
    shown = entities.retrieve(home.organization, ref)

    after = entities.update(home.organization, "test", ref, {**shown, "name": "Books"})
    assert after["configData"]["template"] == old
    after["configData"]["template"] = "{{ bill.totl | default(2) }}"
    with pytest.raises(Invalid, match="`totl`"):
        entities.update(home.organization, "test", ref, after)


@pytest.mark.long
def test_an_answer_without_the_id_is_no_success(home, receiver):
    integrate(home, "HTTP", url=receiver.url("/200"), idPath="id")
    make_bills(home)

    assert {each.status for each in send_bills(home)} == {RunStatus.ERROR}
    assert "nothing at id" in all_tries(home)


@pytest.mark.long
def test_an_integration_that_is_not_wanted_any_more_is_disabled(home, receiver):
    config = integrate(home, "HTTP", url=receiver.url("/410"))
    make_bills(home)
    send_bills(home)

    ref = ResourceRef(BY_NAME["integrationConfigs"], {}, config["id"])
    shown = entities.retrieve(home.organization, ref)
    assert (shown["enabled"], shown["authorized"]) == (False, True)
    assert "410" in shown["error"]
    enabled = enable_integration(home.organization, "test", config["id"])
    assert enabled["enabled"] is True


@pytest.mark.long
def test_a_key_stands_in_its_header(home, receiver):
    key = {"type": "STATIC_API_KEY", "apiKey": SECRET}
    integrate(home, "HTTP", key, url=receiver.url("/200"), keyHeader="X-Key")
    make_bills(home)
    send_bills(home)

    assert [each.headers["x-key"] for each in receiver.received] == [SECRET, SECRET]
    assert SECRET not in all_tries(home)


@pytest.mark.parametrize("header", ["X-Key", "Authorization"])
def test_a_key_that_an_answer_repeats_is_not_kept(home, receiver, header):
    receiver.answers["/500"] = lambda handler: respond(
        handler, 500, f"no access with {handler.headers[header]}".encode()
    )
    key = {"type": "STATIC_API_KEY", "apiKey": SECRET}
    integrate(home, "HTTP", key, url=receiver.url("/500"), keyHeader=header)
    make_bills(home)
    send_bills(home)

    assert "no access with" in all_tries(home)
    assert SECRET not in all_tries(home)


def test_a_key_that_no_header_can_carry_is_not_repeated(home, receiver):
    key = {"type": "STATIC_API_KEY", "apiKey": SECRET}
    made = integrate(home, "HTTP", key, url=receiver.url("/200"))
    store_key(home, made["id"], f"{SECRET}\n")
    make_bills(home)

    assert {each.status for each in send_bills(home)} == {RunStatus.ERROR}
    assert "Authorization" in all_tries(home)
    assert SECRET not in all_tries(home)
    assert receiver.received == []


def store_key(home, id_, key):
    """Put a key where the rules let none come that is like this."""
    with home.organization.transaction("test") as transaction:
        before = transaction.get(IntegrationConfig, id_)
        sealed = home.stores.secrets.encrypt(key)
        credentials = before.entity.credentials.model_copy(update={"api_key": sealed})
        changed = before.entity.model_copy(update={"credentials": credentials})
        transaction.update(id_, before.version, changed)


def share(home, owner, system, **data):
    return create(
        home,
        "integrationConfigs",
        entityType="Bill",
        destination=system,
        configData=data,
        integrationCredentialsId=owner["integrationCredentialsId"],
    )


def test_credentials_are_those_of_another_integration(home, receiver):
    other = integrate(home, "HTTP", BASIC, url=receiver.url("/204"))
    share(home, other, "HTTP", url=receiver.url("/200"))
    make_bills(home)
    send_bills(home)

    sent = {path: {each.headers["authorization"] for each in receiver.of(path)} for path in PATHS}
    assert sent["/200"] == sent["/204"] != set()


def test_credentials_of_another_system_are_refused(home, receiver):
    other = integrate(home, "HTTP", BASIC, url=receiver.url("/204"))

    with pytest.raises(Invalid, match=r"integrationCredentialsId.*of an integration of STRIPE"):
        share(home, other, "STRIPE")


def test_without_the_credentials_of_another_integration_nothing_is_sent(home, receiver):
    other = integrate(home, "HTTP", BASIC, url=receiver.url("/204"))
    config = share(home, other, "HTTP", url=receiver.url("/200"))
    configs = BY_NAME["integrationConfigs"]
    entities.delete(home.organization, "test", ResourceRef(configs, {}, other["id"]))
    make_bills(home)

    assert {each.status for each in send_bills(home)} == {RunStatus.AUTH_FAILED}
    assert receiver.received == []
    ref = ResourceRef(configs, {}, config["id"])
    assert entities.retrieve(home.organization, ref)["authorized"] is False


def oauth(receiver):
    names = {"clientId": "me", "clientSecret": SECRET, "tokenUrl": receiver.url("/token")}
    return {"type": "OAUTH_CLIENT_CREDENTIALS", **names}


@pytest.mark.long
def test_a_token_is_fetched_once_and_used_for_all(home, receiver):
    token = json.dumps({"access_token": "tok-1", "expires_in": 3600}).encode()
    receiver.answers["/token"] = lambda handler: respond(handler, 200, token)
    integrate(home, "HTTP", oauth(receiver), url=receiver.url("/200"))
    make_bills(home)
    runs = send_bills(home)

    assert {each.status for each in runs} == {RunStatus.COMPLETE}
    sent = {each.headers["authorization"] for each in receiver.of("/200")}
    assert sent == {"Bearer tok-1"}
    [asked] = receiver.of("/token")
    assert b"client_credentials" in asked.body
    assert not any(word in all_tries(home) for word in ("tok-1", SECRET))


def give_tokens(receiver, good):
    """A path that takes some tokens, and one that gives another token each time."""

    def give(handler):
        token = f"tok-{len(receiver.of('/token'))}"
        respond(handler, 200, json.dumps({"access_token": token, "expires_in": 3600}).encode())

    def guard(handler):
        is_good = handler.headers["Authorization"].removeprefix("Bearer ") in good
        respond(handler, 200 if is_good else 401, b"{}")

    receiver.answers.update({"/token": give, "/guarded": guard})


@pytest.mark.long
def test_a_token_that_is_refused_before_its_end_is_replaced_in_the_same_try(home, receiver):
    good = {"tok-1"}
    give_tokens(receiver, good)
    integrate(home, "HTTP", oauth(receiver), url=receiver.url("/guarded"))
    make_bills(home)
    send_bills(home)
    good ^= {"tok-1", "tok-2"}
    put_bill(home, account_id(home, "acme"), 1, 5)
    make_runs(home)

    assert {each.status for each in send_bills(home)} == {RunStatus.COMPLETE}
    sent = [each.headers["authorization"][-1] for each in receiver.of("/guarded")]
    assert (sent, len(receiver.of("/token"))) == (["1", "1", "1", "2"], 2)


def test_of_one_try_two_tokens_are_refused_and_no_more(home, receiver):
    give_tokens(receiver, set())
    integrate(home, "HTTP", oauth(receiver), url=receiver.url("/guarded"))
    put_bill(home, account_id(home, "acme"), 1, 5)
    make_runs(home)

    assert [each.status for each in send_bills(home)] == [RunStatus.AWAITING_RETRY]
    assert (len(receiver.of("/guarded")), len(receiver.of("/token"))) == (2, 2)
    assert "tok-" not in all_tries(home)


def test_the_address_of_tokens_is_checked_when_they_are_fetched(home, receiver):
    """Its name leads elsewhere by then: nothing is asked, and nothing is sent."""
    give_tokens(receiver, {"tok-1"})
    credentials = oauth(receiver)
    places = {"tokens.test": "203.0.113.9"}

    async def resolve(host, port):
        del port
        return [ip_address(places.get(host, "127.0.0.1"))]

    credentials["tokenUrl"] = "https://tokens.test/token"
    unresolved = home.stores.settings.model_copy(update={"webhook_must_resolve": False})
    home.stores.settings = unresolved
    integrate(home, "HTTP", credentials, url=receiver.url("/guarded"))
    put_bill(home, account_id(home, "acme"), 1, 5)
    make_runs(home)
    places["tokens.test"] = "169.254.169.254"
    send_due(home.stores, HttpClient(address_policy(unresolved), resolve))

    [run] = runs_of(home.organization)
    assert run.status is RunStatus.ERROR
    assert "tokens.test" in run.job.error
    assert receiver.received == []


@pytest.mark.long
def test_credentials_that_are_refused_end_the_run(home, receiver):
    receiver.answers["/token"] = 401
    integrate(home, "HTTP", oauth(receiver), url=receiver.url("/200"))
    make_bills(home)

    assert {each.status for each in send_bills(home)} == {RunStatus.AUTH_FAILED}
    assert receiver.of("/200") == []
