"""The sender: each way to answer, what becomes of the run, and of its destination."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import entities, integrations
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.integrations.life_cycle import enable_integration
from meterlake.pipeline.integrations.retries import GIVEN_UP_AFTER, PAUSES
from meterlake.settings import Settings
from meterlake.stores.state import JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events
from meterlake.stores.state.integrations.health import troubled_destinations
from tests.deliveries import (
    SECRET,
    add_runs,
    client_of,
    content_for,
    new_webhook,
    run_of,
    send_due,
    stored_webhook,
    tries,
    update_webhook,
)
from tests.doubles.receivers import respond, running_receiver
from tests.organizations import Clock, new_organization, open_new
from tests.people import join

KEY = base64.b64decode(SECRET.removeprefix("whsec_"))


@pytest.fixture
def clock():
    found = Clock()
    found.time = datetime.now(UTC)
    return found


@pytest.fixture
def stores(tmp_path, clock):
    settings = Settings(home=tmp_path / "home", webhook_allow=("127.0.0.1",), _env_file=None)
    with open_new(settings, clock) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return new_organization(stores.state)


@pytest.fixture
def organization(stores, org):
    return stores.organization(org)


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def send_one(organization, receiver, path, **changes):
    webhook = new_webhook(organization, receiver.url(path))
    [id_] = add_runs(organization, [content_for(webhook, **changes)])
    send_due(organization.stores)
    return webhook, id_


def health(stores, webhook):
    with stores.state.reading_home() as connection:
        return troubled_destinations(connection).get(webhook["id"])


def event_names(organization):
    with organization.reading() as reader:
        found, _ = events.page(reader, events.EventFilter(actioned=True), Page(100, None))
    return [each.event.name for each in found if each.event.name.startswith("integration.")]


@pytest.mark.parametrize("path", ["/200", "/204"])
def test_what_a_receiver_takes_is_complete(stores, organization, receiver, path):
    webhook, id_ = send_one(organization, receiver, path)

    [got] = receiver.received
    run, [tried] = run_of(organization, id_), tries(organization, id_)
    assert (run.status, run.job.status) == (RunStatus.COMPLETE, JobStatus.COMPLETE)
    assert (tried.number, tried.status_code, tried.error) == (1, int(path[1:]), None)
    assert got.body.decode() == run.content.body
    assert got.headers["meterlake-api-key"] == "the key"
    assert health(stores, webhook) is None
    send_due(stores)
    assert len(receiver.received) == 1


def test_a_request_is_verified_by_the_public_package(stores, org, receiver):
    _, id_ = send_one(stores.organization(org), receiver, "/200")

    [got] = receiver.received
    assert Webhook(SECRET).verify(got.body, got.headers) == json.loads(got.body)
    assert got.id == id_
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(got.body + b" ", got.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(b"another").verify(got.body, got.headers)


def test_a_secret_of_free_text_is_its_bytes(stores, organization, receiver):
    credentials = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "k", "secret": "Größe 123"}
    webhook = new_webhook(organization, receiver.url(), credentials=credentials)
    add_runs(organization, [content_for(webhook)])

    send_due(stores)

    [got] = receiver.received
    assert Webhook("Größe 123".encode()).verify(got.body, got.headers)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_receiver_whose_clock_is_off_refuses_what_is_not_of_the_time_of_the_try(
    stores, org, receiver, clock, minutes
):
    clock.advance(minutes=minutes)
    send_one(stores.organization(org), receiver, "/200")

    [got] = receiver.received
    with pytest.raises(WebhookVerificationError, match="timestamp"):
        Webhook(SECRET).verify(got.body, got.headers)


@pytest.mark.parametrize(
    ("path", "status", "waiting", "end"),
    [
        ("/301", 301, RunStatus.AWAITING_RETRY, RunStatus.ERROR),
        ("/404", 404, RunStatus.AWAITING_RETRY, RunStatus.ERROR),
        ("/401", 401, RunStatus.AWAITING_RETRY, RunStatus.AUTH_FAILED),
        ("/500", 500, RunStatus.AWAITING_RETRY, RunStatus.TIMEOUT_LIMIT_EXCEEDED),
        ("/429", 429, RunStatus.RATE_LIMIT_RETRY, RunStatus.TIMEOUT_LIMIT_EXCEEDED),
        ("/nul", 500, RunStatus.AWAITING_RETRY, RunStatus.TIMEOUT_LIMIT_EXCEEDED),
        ("/garbage", None, RunStatus.AWAITING_RETRY, RunStatus.TIMEOUT_LIMIT_EXCEEDED),
    ],
)
def test_a_failure_is_tried_ten_times_within_75_hours(  # noqa: PLR0913, PLR0917 - fixtures and cases
    stores, organization, receiver, clock, path, status, waiting, end
):
    begin = clock.time
    webhook, id_ = send_one(organization, receiver, path)
    while (run := run_of(organization, id_)).job.status is JobStatus.PENDING:
        assert run.status is waiting
        clock.time += PAUSES[len(tries(organization, id_)) - 1] * 1.1 + timedelta(hours=1)
        send_due(stores)

    tried = tries(organization, id_)
    assert [each.number for each in tried] == list(range(1, 11))
    assert {each.status_code for each in tried} == {status}
    assert (run.status, run.job.status) == (end, JobStatus.FAILED)
    assert len({each.id for each in receiver.of(path)}) == 1
    stamps = [int(each.headers["webhook-timestamp"]) for each in receiver.of(path)]
    assert stamps == sorted(set(stamps))
    assert clock.time - begin > timedelta(hours=75)
    assert receiver.of("/200") == []
    assert stored_webhook(organization, webhook["id"]).entity.active
    event = "authentication" if end is RunStatus.AUTH_FAILED else "perform"
    assert event_names(organization) == [f"integration.{event}.error"]


def test_the_pauses_between_tries_are_those_of_the_standard():
    assert sum(PAUSES, timedelta()) == timedelta(hours=75, minutes=35, seconds=5)
    assert len(PAUSES) == 9


@pytest.mark.parametrize("path", ["/hang", "/drip"])
def test_a_receiver_that_takes_its_time_is_left_alone(stores, organization, receiver, path):
    [id_] = add_runs(organization, [content_for(new_webhook(organization, receiver.url(path)))])
    send_due(stores, client_of(stores, timeout=1))

    [tried] = tries(organization, id_)
    assert "no answer within 1 second" in tried.error
    assert run_of(organization, id_).status is RunStatus.AWAITING_RETRY


def test_an_endless_answer_is_read_to_64_kilobytes_and_kept_to_one(organization, receiver):
    _, id_ = send_one(organization, receiver, "/flood")

    [tried] = tries(organization, id_)
    assert run_of(organization, id_).status is RunStatus.COMPLETE
    assert tried.response == "x" * 1024
    assert receiver.sent < 50 << 20


def test_what_is_kept_of_a_try_has_no_secrets(organization, receiver):
    _, id_ = send_one(organization, receiver, "/nul")

    [tried] = tries(organization, id_)
    [got] = receiver.received
    assert tried.request.startswith(f"POST {receiver.url('/nul')}\n")
    assert f"webhook-id: {id_}" in tried.request
    assert tried.response.startswith("a\ufffdb\ufffdxxx")
    for secret in ("the key", got.headers["webhook-signature"], SECRET):
        assert secret not in tried.request


def test_a_receiver_says_how_long_it_wants_to_be_left_alone(stores, organization, receiver, clock):
    webhook, id_ = send_one(organization, receiver, "/429")
    [second] = add_runs(organization, [content_for(webhook, 2)])

    clock.advance(minutes=59)
    send_due(stores)
    assert len(receiver.received) == 1
    receiver.answers["/429"] = 200
    clock.advance(minutes=2)
    send_due(stores)

    assert {each.id for each in receiver.received} == {id_, second}
    assert run_of(organization, second).status is RunStatus.COMPLETE


@pytest.mark.parametrize(
    "value",
    [
        *("0", "-5", "soon", "", "99999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT"),
        "Wed, 21 Oct 2015 07:28:00 +99999999999999999999",
        f"Wed, 21 Oct 2015 {'9' * 400}:28:00 GMT",
    ],
)
def test_a_strange_time_to_wait_changes_nothing_but_the_next_try(
    stores, organization, receiver, clock, value
):
    receiver.answers["/500"] = lambda handler: respond(handler, 503, Retry_After=value)
    _, id_ = send_one(organization, receiver, "/500")

    assert run_of(organization, id_).status is RunStatus.AWAITING_RETRY
    assert [each.status_code for each in tries(organization, id_)] == [503]
    clock.advance(days=1, minutes=1)
    send_due(stores)
    assert len(receiver.received) == 2


def test_a_key_that_an_answer_repeats_is_not_kept(organization, receiver):
    receiver.answers["/500"] = lambda handler: respond(
        handler, 500, f"{'x' * 1020}{handler.headers['meterlake-api-key']} is wrong".encode()
    )
    _, id_ = send_one(organization, receiver, "/500")

    [tried] = tries(organization, id_)
    assert tried.response == "x" * 1020 + "****"


@pytest.mark.happens("integration.disabled.error")
def test_410_ends_the_run_and_disables_the_webhook(stores, organization, receiver):
    webhook, id_ = send_one(organization, receiver, "/410")

    assert run_of(organization, id_).status is RunStatus.ERROR
    assert not stored_webhook(organization, webhook["id"]).entity.active
    assert "410" in health(stores, webhook).reason
    assert sorted(event_names(organization)) == [
        "integration.disabled.error",
        "integration.perform.error",
    ]
    [after] = add_runs(organization, [content_for(webhook)])
    send_due(stores)
    assert run_of(organization, after).status is RunStatus.DISABLED
    assert len(receiver.received) == 1


def test_enabling_an_integration_switches_its_webhook_on_again(stores, organization, receiver):
    webhook, _ = send_one(organization, receiver, "/410")
    ref = ResourceRef(BY_NAME["integrationConfigs"], {})
    document = {
        "entityType": "Notification",
        "destination": "Webhook",
        "destinationId": webhook["id"],
    }
    made = entities.create(organization, "test", ref, document)
    assert made["enabled"] is False

    enabled = enable_integration(organization, "test", made["id"])

    assert enabled["enabled"] is True
    assert health(stores, webhook) is None
    receiver.answers["/410"] = 200
    [again] = add_runs(organization, [content_for(webhook)])
    send_due(stores)
    assert run_of(organization, again).status is RunStatus.COMPLETE


@pytest.mark.long
def test_the_people_whom_an_integration_names_get_a_letter_when_it_is_disabled(
    stores, org, organization, receiver
):
    ada, bob = (join(stores.state, org, email) for email in ("ada@x.test", "bob@x.test"))
    webhook = new_webhook(organization, receiver.url("/410"), name="Chat\nSubject: x")
    for people in ([ada], [ada], [], None):
        document = {
            "entityType": "Notification",
            "destination": "Webhook",
            "destinationId": webhook["id"],
            "configData": {"usersToNotify": people},
        }
        ref = ResourceRef(BY_NAME["integrationConfigs"], {})
        entities.create(organization, "test", ref, document)
    add_runs(organization, [content_for(webhook)])

    send_due(stores)

    assert bob != ada
    [letter] = [
        text
        for path in (stores.home / "outbox").glob("*.eml")
        if "disabled" in (text := path.read_text())
    ]
    assert "To: ada@x.test" in letter
    assert "Chat Subject: x any more" in letter
    assert "410" in letter


@pytest.mark.long
def test_five_days_of_failures_disable_a_webhook(stores, organization, receiver, clock):
    webhook, _ = send_one(organization, receiver, "/500")

    for _ in range(11):
        clock.advance(hours=12)
        send_due(stores)
        add_runs(organization, [content_for(webhook)])
        if clock.time - health(stores, webhook).failing_since < GIVEN_UP_AFTER:
            assert stored_webhook(organization, webhook["id"]).entity.active

    assert not stored_webhook(organization, webhook["id"]).entity.active
    assert event_names(organization).count("integration.disabled.error") == 1


def test_one_success_forgets_all_failures(stores, organization, receiver, clock):
    webhook, _ = send_one(organization, receiver, "/500")
    clock.advance(days=6)
    receiver.answers["/500"] = 200
    send_due(stores)

    assert health(stores, webhook) is None
    assert stored_webhook(organization, webhook["id"]).entity.active


def test_who_switches_a_disabled_webhook_on_again_begins_anew(stores, organization, receiver):
    webhook, _ = send_one(organization, receiver, "/410")
    receiver.answers["/410"] = 200
    integrations.set_webhook_active(organization, "test", webhook["id"], active=True)
    [id_] = add_runs(organization, [content_for(webhook)])

    send_due(stores)

    assert run_of(organization, id_).status is RunStatus.COMPLETE
    assert health(stores, webhook) is None


def test_a_run_to_a_webhook_that_is_off_or_gone_is_not_sent(stores, organization, receiver):
    off = new_webhook(organization, receiver.url(), active=False)
    [id_, gone, unknown, deleted] = add_runs(
        organization,
        [
            content_for(off),
            content_for(off, destination_id="gone"),
            content_for(off, destination="NETSUITE"),
            content_for(off, config_id="gone"),
        ],
    )

    send_due(stores)

    assert receiver.received == []
    found = {each: run_of(organization, each) for each in (id_, gone, unknown, deleted)}
    assert found[id_].status is found[gone].status is found[deleted].status is RunStatus.DISABLED
    assert found[id_].job.status is JobStatus.CANCELLED
    assert "not active" in found[id_].job.error
    assert found[unknown].status is RunStatus.ERROR
    assert "NETSUITE" in found[unknown].job.error


def test_a_secret_that_is_replaced_between_two_tries_signs_for_another_day(
    stores, organization, receiver, clock
):
    webhook, _ = send_one(organization, receiver, "/500")
    other = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "other", "secret": "another secret"}
    update_webhook(organization, webhook, credentials=other)

    for _ in range(2):
        clock.advance(minutes=10)
        send_due(stores)
    clock.advance(days=1)
    send_due(stores)

    first, second, third, fourth = receiver.received
    assert Webhook(SECRET).verify(first.body, first.headers)
    for each in (second, third):
        signatures = each.headers["webhook-signature"].split()
        assert len(signatures) == 2
    clock_now = datetime.now(UTC)
    assert clock.time - clock_now > timedelta(hours=23)
    assert len(fourth.headers["webhook-signature"].split()) == 1
    assert fourth.headers["meterlake-api-key"] == "other"


def test_both_secrets_verify_while_one_is_replaced(stores, organization, receiver):
    webhook = new_webhook(organization, receiver.url())
    other = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "other", "secret": "another secret"}
    update_webhook(organization, webhook, credentials=other)
    add_runs(organization, [content_for(webhook)])

    send_due(stores)

    [got] = receiver.received
    assert Webhook(SECRET).verify(got.body, got.headers)
    assert Webhook(b"another secret").verify(got.body, got.headers)


def test_a_run_waits_while_its_destination_pauses_and_uses_up_no_tries(
    stores, organization, receiver, clock
):
    webhook = new_webhook(organization, receiver.url("/500"))
    ids = add_runs(organization, [content_for(webhook, number) for number in range(50)])

    send_due(stores)
    assert len(receiver.received) < 20
    count = len(receiver.received)
    clock.advance(seconds=30)
    send_due(stores)
    assert len(receiver.received) == count + 1

    receiver.answers["/500"] = 200
    for _ in range(8):
        clock.advance(minutes=10)
        send_due(stores)
    assert {run_of(organization, each).status for each in ids} == {RunStatus.COMPLETE}
