"""What happens reaches people: rules, dates and failures, through the SDK and by real billing."""

from datetime import date, timedelta
from uuid import uuid4

import httpx
import pytest

from meterlake.model.errors import Invalid
from meterlake.model.resources.events import BILL_JOB
from meterlake.pipeline.billing.jobs.documents import BillJobSource
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.events.scheduled import SOURCES, fire_scheduled
from meterlake.pipeline.export.run import run_export
from tests.credit_world import world as world  # noqa: PLC0414 - a fixture
from tests.deliveries import runs_of

SAMPLE = (
    "(new.amountSpent >= ((new.amount*90)/100)) AND"
    " ((old.amountSpent <= ((old.amount*90)/100)) OR (old.amountSpent == null))"
)
COMMITMENT = "configuration.commitment.updated"
EVALUATE = "/notifications/evaluate"


def go_on(world):
    """What the worker does meanwhile."""
    organization = world.server.organization
    systems = {"WEBHOOK": ("Notification",)}
    read_log(organization, systems=systems)
    if fire_scheduled(organization):
        read_log(organization, systems=systems)


def notify(sdk, code, event_name, calculation=None):
    more = {"always_fire_event": True} if calculation is None else {"calculation": calculation}
    return sdk.notification_configurations.create(
        name=code, description=code, code=code, event_name=event_name, active=True, **more
    )


def fired(sdk, code):
    """The events of a notification, the oldest first."""
    found = list(sdk.events.list(notification_code=code, event_type="Notification"))
    assert all(each.to_dict()["notificationCode"] == code for each in found)
    return found[::-1]


@pytest.mark.long
def test_the_rule_of_90_percent_goes_out_once_at_the_crossing_by_real_billing(world):
    rule = notify(world.sdk, "90-percent", COMMITMENT, SAMPLE)
    account = world.account()
    commitment = world.commit(account, 100)
    counts = []
    for month, used in enumerate((50, 39, 2, 5, 50), 2):
        world.use(account, (f"2026-{month - 1:02d}-10", used))
        world.bill(account, f"2026-{month:02d}-01")
        go_on(world)
        counts.append(len(fired(world.sdk, "90-percent")))

    assert counts == [0, 0, 1, 1, 1]
    assert world.spent(commitment) == 100
    [event] = fired(world.sdk, "90-percent")
    assert event.event_name == COMMITMENT
    assert event.m3ter_event["eventType"] == "Notification"
    data = event.m3ter_event["eventData"]
    assert (data["oldDto"]["amountSpent"], data["newDto"]["amountSpent"]) == (89, 91)
    base = world.sdk.events.retrieve(event.m3ter_event["baseEventId"])
    assert base.m3ter_event["eventData"]["newDto"] == data["newDto"]
    assert "eventType" not in base.m3ter_event
    # A calculation of what is billed again changes nothing, and tells nobody again.
    world.bill(account, "2026-04-01")
    go_on(world)
    assert len(fired(world.sdk, "90-percent")) == 1
    world.sdk.notification_configurations.delete(rule.id)


def test_what_was_created_has_no_old_fields(world):
    for code, calculation in (("none", "old.code == null"), ("some", "old.code != new.code")):
        notify(world.sdk, code, "configuration.account.created", calculation)
    world.account()
    go_on(world)

    assert (len(fired(world.sdk, "none")), fired(world.sdk, "some")) == (1, [])


@pytest.mark.long
def test_a_bill_that_is_due_for_ten_days_reminds(world):
    name = "scheduled.bill.reminder"
    world.sdk.scheduled_event_configurations.create(
        name=name, entity="Bill", field="dueDate", offset=10
    )
    assert name in world.sdk.events.get_types().events
    notify(world.sdk, "reminder", name, "new.billTotal > 0")
    account = world.account()
    world.use(account, ("2026-01-10", 5))
    world.bill(account, "2026-02-01")
    go_on(world)

    [bill] = world.sdk.bills.list(account_id=account.id)
    [event] = [
        each for each in fired(world.sdk, "reminder")
        if each.m3ter_event["eventData"]["newDto"]["id"] == bill.id
    ]  # fmt: skip
    data = event.m3ter_event["eventData"]
    due = date.fromisoformat(data["newDto"]["dueDate"]) + timedelta(days=10)
    # It was due long ago when the bill was made: the event has the time at which it was.
    assert data["baseEventTime"] == f"{due}T00:00:00Z"
    # The list shows what happened and what went out, the newest first.
    both = list(world.sdk.events.list(event_name=name, resource_id=bill.id))
    assert [each.id for each in both] == [event.id, event.m3ter_event["baseEventId"]]
    assert both[1].event_time.date() == due
    go_on(world)
    assert len(list(world.sdk.events.list(event_name=name, resource_id=bill.id))) == 2


def test_an_export_that_fails_tells_a_channel(world):
    sdk, organization = world.sdk, world.server.organization
    rule = notify(sdk, "exports", "dataexport.job.failure")
    config = sdk.integration_configurations.create(
        entity_type="Notification",
        entity_id=rule.id,
        destination="Webhook",
        config_data={},
        **new_channel(sdk),
    )
    job_id = sdk.data_exports.create_adhoc(
        source_type="OPERATIONAL", operational_data_types=["ACCOUNTS"]
    ).job_id
    blocked = organization.stores.home / "objects" / f"exports/{organization.id}/{job_id}"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where a folder has to be")
    with pytest.raises(Invalid):
        run_export(organization.stores, job_id)
    go_on(world)

    [event] = fired(sdk, "exports")
    assert event.m3ter_event["eventData"]["newDto"]["jobId"] == job_id
    [run] = runs_of(organization)
    assert (run.content.config_id, run.content.event_id) == (config.id, event.id)


def new_channel(sdk):
    hook = sdk.webhooks.create(
        name="Channel",
        description="Channel",
        code="channel",
        url="https://example.com/hook",
        active=True,
        credentials={"type": "M3TER_SIGNED_REQUEST", "api_key": "k", "secret": "s" * 24},
    )
    return {"destination_id": hook.id}


@pytest.fixture
def evaluate(world):
    def ask(**body):
        with world.server.http() as http:
            return http.post(EVALUATE, json=body)

    return ask


@pytest.mark.parametrize(
    ("calculation", "message"),
    [
        (SAMPLE, None),
        ("new.amount > old.amount + 1000", None),
        ("new.productIds == null", None),
        ("", "column 1: "),
        (None, "column 1: "),
        ("new.amount >", "missing at the end"),
        ("new.amont > 1", "did you mean new.amount"),
        ("new.amount", "the result needs boolean"),
        ('new.amount > "1"', "needs"),
        ("new.productIds == new.amount", "compared with null only"),
    ],
)
@pytest.mark.sees("EvaluateCalculation")
def test_a_calculation_is_tried_with_the_fields_of_a_type(evaluate, calculation, message):
    # The name decides, whatever event is given.
    answer = evaluate(eventName=COMMITMENT, eventId=str(uuid4()), calculation=calculation)

    assert answer.status_code == httpx.codes.OK
    found = answer.json()
    assert found["success"] is (message is None)
    assert (
        found.get("errorMessage") is None if message is None else message in found["errorMessage"]
    )


def test_a_calculation_is_tried_with_an_event_that_happened(world, evaluate):
    account = world.account()
    [event] = world.sdk.events.list(resource_id=account.id)

    def tried(calculation):
        return evaluate(eventId=event.id, calculation=calculation).json()

    assert tried(f'new.code == "{account.code}"')["success"]
    # It is evaluated, whatever it says.
    assert tried('new.code == "another"')["success"]
    assert tried("1 / (new.version - 1) > 0") == {
        "success": False,
        "errorMessage": "division by zero",
    }
    assert tried("old.code == null")["success"]
    assert "did you mean old.code" in tried("old.cod == null")["errorMessage"]


def test_who_may_not_see_events_tries_nothing_with_one(world):
    [event] = world.sdk.events.list(resource_id=world.account().id)
    with world.server.http() as http:
        token = limited_token(world.server, http, "config:notificationconfiguration/*")
    with world.server.http(token) as http:
        typed = {"eventName": event.event_name, "calculation": "toNumber(new.code) > 1"}
        refused = http.post(EVALUATE, json={**typed, "eventName": None, "eventId": event.id})
        allowed = http.post(EVALUATE, json=typed | {"eventId": event.id})

    assert (refused.status_code, allowed.json()["success"]) == (403, True)
    assert "event" in refused.json()["message"]


def limited_token(server, http, resource):
    """A token of a service user who may look at resources of one type."""

    def created(path, body):
        answer = http.post(path, json=body)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    statement = {"effect": "allow", "action": ["config:retrieve"], "resource": [resource]}
    policy = created("/permissionpolicies", {"name": "p", "permissionPolicy": [statement]})
    user = created("/serviceusers", {"name": "robot"})
    created(f"/permissionpolicies/{policy['id']}/addtoserviceuser", {"principalId": user["id"]})
    key = created(f"/serviceusers/{user['id']}/accesskeys", {})
    return httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key["id"], key["apiSecret"]),
    ).json()["access_token"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"calculation": "true"}, 400),
        ({"eventName": "no.such.event", "calculation": "true"}, 400),
        ({"eventId": "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11", "calculation": "true"}, 404),
        ({"eventName": COMMITMENT, "calculation": 5}, 400),
    ],
)
def test_what_is_tried_is_a_calculation_of_an_event(evaluate, body, status):
    assert evaluate(**body).status_code == status


@pytest.mark.long
def test_dates_of_bill_jobs_fall_due_too(world):
    name = "scheduled.billjob.age"
    account = world.account()
    world.run("2026-02-01", accounts=[account])
    world.sdk.scheduled_event_configurations.create(
        name=name, entity="BillJob", field="dtCreated", offset=0
    )
    sources = {**SOURCES, BILL_JOB: BillJobSource()}
    organization = world.server.organization
    assert fire_scheduled(organization, sources=sources) > 0

    jobs = {each.id for each in world.sdk.bill_jobs.list()}
    found = list(world.sdk.events.list(event_name=name))
    ids = [each.m3ter_event["eventData"]["newDto"]["id"] for each in found]
    assert sorted(ids) == sorted(jobs)
    assert fire_scheduled(organization, sources=sources) == 0
