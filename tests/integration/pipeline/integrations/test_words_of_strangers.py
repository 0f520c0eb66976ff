"""What receivers answer is theirs: it is kept as text, without our secrets, and stops nobody else."""

import base64
import json
from datetime import timedelta
from urllib.parse import quote, quote_plus

import pytest
from sqlalchemy import update

from meterlake.model.configuration.integration_systems import BILL, IntegrationSystem
from meterlake.model.configuration.integrations import ExternalMapping, RunStatus
from meterlake.model.errors import Invalid
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Sent,
)
from meterlake.pipeline.integrations.connectors.http import render_json
from meterlake.pipeline.integrations.connectors.safe_answers import Echoes, web_address
from meterlake.stores.state.core.tables import ENTITY
from tests.deliveries import add_runs, content_for, new_webhook, run_of, send_due, tries
from tests.doubles.receivers import respond, running_receiver
from tests.long_cases import long_after
from tests.sent_bills import (
    account_id,
    all_tries,
    home_with_bills,
    integrate,
    make_bills,
    send_bills,
)

LONG = "x" * (10 << 20)
HALF = "\ud800"
SAID = {"nul": "\0x", "half": HALF, "nuls": "x\0" * 10, "10 MB": LONG}
FIELDS = ("external_id", "url", "response", "request", "error", "details")
SECRET = 'p"ß w/ör+d?&'
BASIC = {"type": "HTTP_BASIC", "username": "ada", "password": SECRET}


@pytest.fixture
def home(home_database, tmp_path):  # noqa: ARG001 - State on SQLite and on PostgreSQL
    with home_with_bills(tmp_path) as opened:
        yield opened


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def answer(receiver, document):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    receiver.answers["/bills"] = lambda handler: respond(handler, 200, body)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        pytest.param(
            field,
            said,
            id=f"{field}-{name}",
            # Each field and each text is once in the default suite.
            marks=() if (number - other) % len(SAID) == 0 else pytest.mark.long,
        )
        for number, field in enumerate(FIELDS)
        for other, (name, said) in enumerate(SAID.items())
    ],
)
def test_whatever_a_connector_says_one_run_ends_and_others_go_on(home, receiver, field, said):
    """Also that of somebody else, which cleans nothing."""

    class Theirs:
        declaration = IntegrationSystem(name="HTTP", display_name="Theirs", entity_types=(BILL,))
        concurrency = 1

        async def send(self, _):
            if field in {"external_id", "url"}:
                return Sent(**{field: said})
            if field in {"response", "request"}:
                return Sent(exchange=Exchange(**{field: said, "status_code": 200}))
            details = {"accountId": said} if field == "details" else {}
            return Failed(kind=FailureKind.REJECTED, error=said, details=details)

    integrate(home, "HTTP", url=receiver.url("/200"))
    make_bills(home)
    webhook = new_webhook(home.organization, receiver.url("/204"))
    [other] = add_runs(home.organization, [content_for(webhook)])
    runs = send_bills(home, known={**_own(), "HTTP": Theirs()})

    expected = RunStatus.ERROR if field in {"error", "details"} else RunStatus.COMPLETE
    assert {each.status for each in runs} == {expected}
    assert run_of(home.organization, other).status is RunStatus.COMPLETE
    kept = all_tries(home) + str([(each.external_id, each.url, each.job.error) for each in runs])
    assert "\\x00" not in kept
    assert len(kept) < 1 << 20


@pytest.mark.parametrize("status", [10**30, "\0"])
def test_a_try_that_no_database_takes_is_an_error_of_its_run_alone(home, receiver, status):
    """Whatever the error: each try of the turn is written alone."""

    class Theirs:
        declaration = IntegrationSystem(name="HTTP", display_name="Theirs", entity_types=(BILL,))
        concurrency = 9

        async def send(self, outgoing):
            is_acme = outgoing.content.account_id == acme
            return Sent(exchange=Exchange(status_code=status if is_acme else 200))

    acme = account_id(home, "acme")
    integrate(home, "HTTP", url=receiver.url("/200"))
    make_bills(home)
    runs = send_bills(home, known={**_own(), "HTTP": Theirs()})
    home.clock.time += timedelta(days=2)
    again = send_bills(home, known={**_own(), "HTTP": Theirs()})

    ends = {each.content.account_id == acme: each.status for each in runs}
    assert ends == {each.content.account_id == acme: each.status for each in again}
    # SQLite keeps any text where a number is expected.
    assert ends[False] is RunStatus.COMPLETE
    assert ends[True] in {RunStatus.ERROR, RunStatus.COMPLETE}


@pytest.mark.long
def test_a_damaged_destination_fails_its_own_runs(home, receiver):
    """Its row in State cannot be read."""
    broken = integrate(home, "HTTP", url=receiver.url("/200"))
    make_bills(home)
    webhook = new_webhook(home.organization, receiver.url("/204"))
    [other] = add_runs(home.organization, [content_for(webhook)])
    with home.stores.state.writing_home() as connection:
        mine = ENTITY.c.id == broken["id"]
        connection.execute(update(ENTITY).where(mine).values(body='{"entityType": 5}'))
    runs = send_bills(home)

    assert {each.status for each in runs} == {RunStatus.ERROR}
    assert {each.job.error.partition(":")[0] for each in runs} == {
        "what the run needs cannot be read"
    }
    assert run_of(home.organization, other).status is RunStatus.COMPLETE


def _own():
    from meterlake.pipeline.integrations.sender import connectors

    return dict(connectors())


@pytest.mark.parametrize(
    "body",
    long_after(
        2,
        [
            {"id": "a", "url": "\0x"},
            {"id": "a", "url": "javascript:alert(1)"},
            {"id": "a", "url": " https://x.test"},
            {"id": "a", "url": "https://x.test/\u202e" + "y" * 3000},
            {"id": "a", "url": "https://user:pass@x.test/"},
            {"id": "a", "url": ["https://x.test"]},
            b'{"id": "a", "url": "\\ud800"}',
        ],
    ),
)
def test_an_address_that_is_none_of_the_web_is_left_out(home, receiver, body):
    integrate(home, "HTTP", url=receiver.url("/bills"), idPath="id", urlPath="url")
    answer(receiver, body)
    make_bills(home)
    runs = send_bills(home)

    assert {each.url for each in runs} == {None}
    assert len(receiver.received) == len(runs)


@pytest.mark.parametrize("id_", long_after(3, ["a\0b", "", None, "y" * 60_000, "a\nb", " a", True]))
def test_a_bill_that_was_taken_is_not_sent_again_whatever_its_id(home, receiver, id_):
    integrate(home, "HTTP", url=receiver.url("/bills"), idPath="id")
    answer(receiver, {"id": id_})
    make_bills(home)
    runs = send_bills(home)
    home.clock.time += timedelta(days=2)
    again = send_bills(home)

    assert {each.status for each in runs} == {each.status for each in again} == {RunStatus.ERROR}
    assert len(receiver.received) == len(runs)
    assert all("the receiver took the bill, but" in each.job.error for each in runs)
    assert all(len(each.job.error) < 500 for each in runs)


FORMS = {
    "plain": SECRET,
    "in an address": quote(SECRET),
    "in a path": quote(SECRET, safe=""),
    "in a form": quote_plus(SECRET),
    "in JSON": json.dumps(SECRET),
    "in escapes": "".join(f"\\u{ord(each):04x}" for each in SECRET),
    "Base64": base64.b64encode(SECRET.encode()).decode(),
    "Base64 of more": base64.b64encode(f"the key {SECRET} is".encode()).decode(),
    "URL-safe": base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    "Basic": base64.b64encode(f"ada:{SECRET}".encode()).decode(),
    "hexadecimal": SECRET.encode().hex(),
    "HTML": SECRET.replace("&", "&amp;").replace('"', "&quot;"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_every_form(form):
    echoes, text = Echoes([SECRET]), f"no access with {FORMS[form]} here"
    core = FORMS[form][4:-4]

    assert core in text
    assert core not in echoes.mask(text)
    assert echoes.finds(text)
    assert not echoes.finds("no access with that here")


@pytest.mark.long
@pytest.mark.parametrize("form", long_after(1, ["Basic", "plain", "Base64 of more", "in a form"]))
def test_a_credential_that_comes_back_is_kept_nowhere(home, receiver, form):
    integrate(home, "HTTP", BASIC, url=receiver.url("/bills"), idPath="id", urlPath="url")
    said = FORMS[form]
    answer(receiver, {"id": f"inv {said}", "url": f"https://x.test/{quote(said)}", "more": said})
    make_bills(home)
    runs = send_bills(home)

    kept = all_tries(home) + str(runs)
    with home.organization.reading() as reader:
        kept += str([each.entity for each in reader.all(ExternalMapping)])
    core = said[4:-4]
    assert core not in kept
    assert quote(core) not in kept
    assert {each.status for each in runs} == {RunStatus.ERROR}
    assert "is a credential of the integration" in runs[0].job.error


def test_a_secret_of_a_webhook_that_comes_back_is_masked(home, receiver):
    secret = base64.b64encode(b"the signing secret that nobody reads").decode()
    receiver.answers["/echo"] = lambda handler: respond(handler, 500, f"no: {secret}".encode())
    webhook = new_webhook(
        home.organization,
        receiver.url("/echo"),
        credentials={"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": f"whsec_{secret}"},
    )
    [id_] = add_runs(home.organization, [content_for(webhook)])
    send_due(home.stores)

    [tried] = tries(home.organization, id_)
    assert tried.response == "no: ********"


@pytest.mark.parametrize("text", ["https://x.test/a?b=c#d", "HTTP://x.test"])
def test_an_address_of_the_web_is_kept(text):
    assert web_address(text) == text


@pytest.mark.parametrize(
    "template",
    ["{{ 1e999 | tojson }}", "{{ -1e999 | int }}", "{% if 1e999 %}1{% endif %}"],
)
def test_a_template_of_infinity_is_refused_when_it_is_saved(home, template):
    with pytest.raises(Invalid, match="finite"):
        integrate(home, "HTTP", url="https://x.test", template=template)


@pytest.mark.parametrize(
    "template", ["{{ a | int }}", "{{ a | round }}", "{{ a | tojson }}", "{{ a / 0 }}"]
)
def test_a_template_that_comes_to_infinity_ends_its_run(template):
    with pytest.raises(Invalid, match="template"):
        render_json(template, {"a": float("inf")})
