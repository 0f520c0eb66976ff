"""Bill jobs over HTTP: asked for with the SDK, run as the worker does, cancelled and repeated."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import httpx
import m3ter
import pytest
from sqlalchemy import update

from meterlake.model.bills.jobs import KIND
from meterlake.model.values import failpoint
from meterlake.model.values.ids import is_id
from meterlake.pipeline.billing import run as verb
from meterlake.pipeline.billing.jobs.auto_approval import approve_due
from meterlake.pipeline.billing.jobs.jobs import BILL_JOBS, run_bill_job
from meterlake.pipeline.jobs.attempt import Cancelled
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.state import JobStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.jobs import JOB
from tests.bills import price_egress, refuse_bills, subscribe
from tests.databases import new_database
from tests.homes import ACCOUNTS, EGRESS, configure, ndjson, wire_row
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

NO_ID = "00000000-0000-0000-0000-000000000000"
OCTOBER_1 = "2026-10-01"
RATE = {"from": "USD", "to": "EUR", "multiplier": 2}
REFUSED = "the organization has no conversion rate from EUR to USD; add it to currencyConversions"


def use_egress(home):
    """Acme used 42.5 in September, and bolt nothing."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt")
    home.ingest("rows.ndjson", ndjson([wire_row("a", 40), wire_row("b", 2.5)]))


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture(scope="module")
def bare(home_database, tmp_path_factory):
    """A server without plans, on which every request is refused."""
    with served(tmp_path_factory.mktemp(home_database) / "home") as found:
        yield found


@pytest.fixture
def jobs(server):
    with server.sdk() as sdk:
        yield sdk.bill_jobs


def run(server, job):
    return run_bill_job(server.stores, job.id)


def accounts(server):
    with server.http() as http:
        return {each["code"]: each["id"] for each in http.get("/accounts").json()["data"]}


def stored(server):
    """All bills, by the codes of their accounts and bill dates."""
    with server.organization.reading() as reader:
        found = bills.of_period(reader)
    return {
        (each.content.body["accountCode"], str(each.content.key.bill_date)): each for each in found
    }


@contextmanager
def each_bill_alone(monkeypatch, after_first):
    """Batches of one bill; something happens when the first one is stored."""
    monkeypatch.setattr(verb, "BATCH", 1)
    steps = []

    def hook(name):
        steps.append(name)
        if name == "bill.stored" and steps.count(name) == 1:
            after_first()

    monkeypatch.setattr(failpoint, "hook", hook)
    yield steps
    monkeypatch.setattr(failpoint, "hook", None)


@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        (
            {"billDate": OCTOBER_1, "lastDateInBillingPeriod": "2026-09-29"},
            "billDate: '2026-10-01'",
            "it is not the day after lastDateInBillingPeriod 2026-09-29; give only one",
        ),
        ({"billDate": "0999-12-31"}, "billDate", "a day from 1000-01-01"),
        ({"lastDateInBillingPeriod": "9999-12-31"}, "lastDateInBillingPeriod", "a day from"),
        ({"billDate": "2026-10-32"}, "billDate", "a date"),
        ({"billingFrequency": "MIXED"}, "billingFrequency: 'MIXED'", "DAILY"),
        ({"billFrequencyInterval": 0}, "billFrequencyInterval: 0", "more than 0"),
        ({"accountIds": []}, "accountIds", "at least 1"),
        ({"accountIds": [NO_ID] * 101}, "accountIds", "at most 100"),
        ({"accountIds": [NO_ID]}, "accountIds[0]", "the id of an existing Account"),
        ({"targetCurrency": "EURO"}, "targetCurrency: 'EURO'", "at most 3"),
        ({"targetCurrency": "usd"}, "targetCurrency: 'usd'", "the code of an existing Currency"),
        (
            {"currencyConversions": [RATE, RATE]},
            "currencyConversions[1]",
            "the pair has a rate already",
        ),
        ({"currencyConversions": [RATE] * 251}, "currencyConversions", "at most 250"),
        ({"timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus'", "tz database"),
        ({"weekEpoch": "monday"}, "weekEpoch: 'monday'", "a date"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_its_field(bare, body, field, rule):
    with bare.http() as http:
        known = http.get("/billjobs").json()["data"]
        answer = http.post("/billjobs", json=body)
        waiting = http.get("/billjobs").json()["data"]

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert field in answer.json()["message"]
    assert rule in answer.json()["message"]
    assert waiting == known


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([], "billIds: [] is not allowed: it must have at least 1"),
        ([NO_ID] * 101, "at most 100"),
        (["one"], "billIds[0]: 'one' is not allowed: it must be an id"),
        ([NO_ID], f"billIds[0]: '{NO_ID}' is not allowed: it must be the id of an existing Bill"),
    ],
)
def test_bills_that_are_none_are_not_recalculated(bare, ids, told):
    with bare.sdk() as sdk, pytest.raises(m3ter.BadRequestError) as wrong:
        sdk.bill_jobs.recalculate(bill_ids=ids)

    assert told in wrong.value.body["message"]


def test_jobs_that_are_none_and_statuses_that_are_none_are_refused(bare):
    jobs = bare.sdk().bill_jobs
    with pytest.raises(m3ter.NotFoundError):
        jobs.retrieve(NO_ID)
    with pytest.raises(m3ter.NotFoundError):
        jobs.cancel(NO_ID)
    with pytest.raises(m3ter.BadRequestError, match="PENDING, INITIALIZING, RUNNING"):
        list(jobs.list(status="FAILED"))
    with pytest.raises(m3ter.BadRequestError, match="true or false"):
        list(jobs.list(active="perhaps"))


@pytest.mark.long
@pytest.mark.sees("CreateBillJob", "GetBillJob", "ListBillJobs")
def test_a_job_makes_the_bills_of_a_date(server, jobs):
    made = jobs.create(bill_date=date(2026, 10, 1))
    assert (made.status, made.type, made.total, made.bill_ids) == ("PENDING", "CREATE", None, None)
    assert str(made.last_date_in_billing_period) == "2026-09-30"
    assert [each.id for each in jobs.list(active="TRUE")] == [made.id]

    result = run(server, made)
    job = jobs.retrieve(made.id)

    assert (job.status, job.total, job.pending) == ("COMPLETE", 2, 0)
    found = stored(server)
    assert sorted(found) == [("acme", OCTOBER_1), ("bolt", OCTOBER_1)]
    assert sorted(job.bill_ids) == sorted(each.id for each in found.values())
    assert {each.account_code: str(each.total) for each in result.bills} == {
        "acme": "73.50",
        "bolt": "31.00",
    }
    assert list(jobs.list(active="TRUE")) == []
    assert [each.id for each in jobs.list(status="COMPLETE")] == [made.id]
    assert list(jobs.list(active="TRUE", status="COMPLETE")) == []


def test_jobs_come_page_by_page_the_newest_first(jobs):
    ids = [jobs.create(bill_date=date(2026, month, 1)).id for month in (7, 8, 9)]

    first = jobs.list(page_size=2)

    assert len(first.data) == 2
    assert [each.id for each in first] == ids[::-1]


@pytest.mark.long
def test_the_last_day_means_the_same_as_the_bill_date(server, jobs):
    ids = accounts(server)
    made = jobs.create(last_date_in_billing_period=date(2026, 9, 30), account_ids=[ids["bolt"]])

    assert (str(made.bill_date), made.account_ids) == (OCTOBER_1, [ids["bolt"]])
    assert [each.account_code for each in run(server, made).bills] == ["bolt"]
    assert run(server, jobs.create(bill_date=date(2026, 9, 15))).bills == []


@pytest.mark.long
def test_without_a_date_the_bills_end_the_current_period(server, jobs):
    made = jobs.create(billing_frequency="MONTHLY")
    today = datetime.now(UTC).date()
    end = (today.replace(day=1) + timedelta(days=32)).replace(day=1)

    run(server, made)

    assert {bill_date for _, bill_date in stored(server)} == {str(end)}


@pytest.mark.long
def test_another_frequency_or_interval_has_no_bills(server, jobs):
    for wanted in ({"billing_frequency": "WEEKLY"}, {"bill_frequency_interval": 2}):
        job = jobs.create(bill_date=date(2026, 10, 1), **wanted)
        run(server, job)
        assert (jobs.retrieve(job.id).total, stored(server)) == (0, {})


@pytest.mark.long
@pytest.mark.sees("RecalculateBillJob")
def test_a_bill_is_made_again_with_the_settings_of_its_job(server, jobs):
    configure(server.organization, currencies=[{"code": "EUR", "name": "Euro"}])
    own = {"timezone": "Europe/Berlin", "targetCurrency": "EUR", "currencyConversions": [RATE]}
    with server.http() as http:
        body = {"billDate": OCTOBER_1, "dueDate": "2026-12-24", **own}
        made = http.post("/billjobs", json=body).json()
    assert {name: made[name] for name in own} == own
    run_bill_job(server.stores, made["id"])
    before = stored(server)["acme", OCTOBER_1]
    assert (before.content.currency, str(before.content.total)) == ("EUR", "147")
    assert before.content.body["timezone"] == "Europe/Berlin"

    again = jobs.recalculate(bill_ids=[before.id])
    assert (again.type, again.bill_ids, again.bill_date) == ("RECALCULATE", [before.id], None)
    [billed] = run(server, again).bills

    assert (billed.bill_id, billed.stored) == (before.id, "unchanged")
    assert stored(server)["acme", OCTOBER_1] == before
    job = jobs.retrieve(again.id)
    assert (job.total, job.pending, job.bill_ids) == (1, 0, [before.id])
    with server.http() as http:
        assert None not in http.get(f"/billjobs/{again.id}").json().values()


@pytest.mark.long
def test_of_two_dates_each_bill_is_recalculated_alone(server, jobs):
    for month in (9, 10):
        run(server, jobs.create(bill_date=date(2026, month, 1)))
    before = stored(server)
    chosen = [before["acme", OCTOBER_1], before["bolt", "2026-09-01"]]
    price_egress(server, price=3)

    job = jobs.recalculate(bill_ids=[each.id for each in chosen])
    made = run(server, job).bills

    assert [(each.account_code, each.stored) for each in made] == [
        ("bolt", "unchanged"),
        ("acme", "updated"),
    ]
    now = stored(server)
    assert [key for key in now if now[key] != before[key]] == [("acme", OCTOBER_1)]


@pytest.mark.long
def test_the_eleventh_job_is_refused_until_one_has_ended(server, jobs):
    made = [jobs.create(bill_date=date(2026, 10, 1)) for _ in range(10)]
    with pytest.raises(m3ter.RateLimitError) as many:
        jobs.create(bill_date=date(2026, 10, 1))
    assert "10 of them are unfinished" in many.value.body["message"]
    assert int(many.value.response.headers["retry-after"]) > 0
    with pytest.raises(m3ter.RateLimitError):
        jobs.recalculate(bill_ids=[NO_ID])

    run(server, made[0])

    assert jobs.create(bill_date=date(2026, 10, 1)).status == "PENDING"


@pytest.mark.sees("CancelBillJob")
def test_a_job_that_waits_is_cancelled_once(server, jobs):
    made = jobs.create(bill_date=date(2026, 10, 1))

    assert jobs.cancel(made.id).status == "CANCELLED"

    assert [each.id for each in jobs.list(status="CANCELLED")] == [made.id]
    assert server.stores.state.jobs.waiting(server.org_id, KIND) == []
    with pytest.raises(m3ter.ConflictError, match="was cancelled"):
        jobs.cancel(made.id)


@pytest.mark.long
def test_a_job_that_runs_counts_and_is_cancelled_between_two_bills(server, jobs, monkeypatch):
    made = jobs.create(bill_date=date(2026, 10, 1))
    seen = []

    def look():
        seen.append(jobs.retrieve(made.id))
        seen.append(next(iter(jobs.list(status="RUNNING"))))
        assert list(jobs.list(status="INITIALIZING")) == []
        jobs.cancel(made.id)

    with each_bill_alone(monkeypatch, look), pytest.raises(Cancelled):
        run(server, made)

    assert [(each.status, each.total, each.pending) for each in seen] == [("RUNNING", 2, 1)] * 2
    assert jobs.retrieve(made.id).status == "CANCELLED"
    assert list(stored(server)) == [("acme", OCTOBER_1)]


def test_a_job_that_has_not_counted_yet_initializes(server, jobs):
    made = jobs.create(bill_date=date(2026, 10, 1))
    server.stores.state.jobs.take(made.id, 1)

    assert jobs.retrieve(made.id).status == "INITIALIZING"
    assert [each.id for each in jobs.list(status="INITIALIZING")] == [made.id]
    assert list(jobs.list(status="RUNNING")) == []


@pytest.mark.long
def test_a_job_whose_executor_is_dead_is_cancelled_at_once(server, jobs):
    made = jobs.create(bill_date=date(2026, 10, 1))
    server.stores.state.jobs.take(made.id, 1)
    ended = datetime.now(UTC) - timedelta(seconds=1)
    with server.stores.state.writing_home() as connection:
        connection.execute(update(JOB).where(JOB.c.id == made.id).values(lease_until=ended))

    assert jobs.cancel(made.id).status == "CANCELLED"


@pytest.mark.long
def test_an_account_that_cannot_be_billed_stops_no_other(server, jobs):
    refuse_bills(server, "acme")
    made = jobs.create(bill_date=date(2026, 10, 1))

    run(server, made)

    assert list(stored(server)) == [("bolt", OCTOBER_1)]
    with server.http() as http:
        job = http.get(f"/billjobs/{made.id}").json()
        told = http.get("/events", params={"eventName": "billing.billjob.updated"}).json()["data"]
    failures = [{"account": "acme", "reason": REFUSED}]
    assert (job["status"], job["failures"]) == ("COMPLETE", failures)
    assert (job["total"], job["pending"], job["failureCount"]) == (2, 0, 1)
    assert (job["status"], job["outcome"]) == ("COMPLETE", "PARTLY_FAILED")
    assert told[0]["m3terEvent"]["eventData"]["newDto"]["failures"] == job["failures"]
    assert told[0]["m3terEvent"]["eventData"]["oldDto"]["status"] == "RUNNING"


@pytest.mark.long
def test_a_job_of_an_older_version_is_not_resumed(server, jobs):
    job = server.stores.state.jobs.start(server.org_id, KIND, {"month": "2026-09"})
    ended = datetime.now(UTC) - timedelta(seconds=1)
    with server.stores.state.writing_home() as connection:
        connection.execute(update(JOB).where(JOB.c.id == job.id).values(lease_until=ended))

    list(run_round(BILL_JOBS, Alone(), server.organization, lambda: False))

    assert server.stores.state.jobs.get(job.id).status is JobStatus.FAILED
    assert (stored(server), jobs.retrieve(job.id).status) == ({}, "CANCELLED")


class Alone:
    """Runs jobs in this process, as the worker does without a Prefect server."""

    def run(self, _kind, parameters, verb):
        assert is_id(parameters["job"])
        return verb()

    def ends(self):
        return False

    def warn_once(self, text):
        raise AssertionError(text)


@pytest.mark.long
def test_a_round_runs_what_waits_the_oldest_first(server, jobs):
    made = [jobs.create(bill_date=date(2026, month, 1)) for month in (8, 9)]

    list(run_round(BILL_JOBS, Alone(), server.organization, lambda: True))
    assert stored(server) == {}
    list(run_round(BILL_JOBS, Alone(), server.organization, lambda: False))

    ended = [jobs.retrieve(each.id) for each in made]
    assert [each.status for each in ended] == ["COMPLETE", "COMPLETE"]
    assert ended[0].dt_last_modified <= ended[1].dt_last_modified
    assert len(stored(server)) == 4


MONTHLY = {"billingFrequency": "MONTHLY", "billFrequencyInterval": 1}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"billFrequencyInterval": 1, "accountIds": [NO_ID]}, "billingFrequency is required"),
        ({"billingFrequency": "MONTHLY"}, "billFrequencyInterval is required"),
        (MONTHLY, "accountIds is required"),
        ({**MONTHLY, "accountIds": [NO_ID, NO_ID[:-1] + "1"]}, "exactly one account"),
        ({**MONTHLY, "accountIds": [NO_ID]}, "accountIds[0]"),
    ],
)
def test_a_preview_of_no_bill_or_of_several_is_refused(bare, body, told):
    with bare.http() as http:
        answer = http.post("/bills/preview", json=body)

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert told in answer.json()["message"]


@pytest.mark.long
@pytest.mark.sees("PreviewBill")
def test_a_preview_is_the_bill_that_a_job_would_make_and_stores_nothing(server, jobs):
    body = {**MONTHLY, "billDate": OCTOBER_1, "accountIds": [accounts(server)["acme"]]}
    with server.http() as http:
        shown = http.post("/bills/preview", json=body).json()
        assert http.get("/bills").json()["data"] == []
        assert http.get("/billjobs").json()["data"] == []
        assert (
            http.get("/events", params={"eventName": "billing.bill.created"}).json()["data"] == []
        )
        run(server, jobs.create(bill_date=date(2026, 10, 1)))
        made = http.get(f"/bills/{stored(server)['acme', OCTOBER_1].id}").json()
        again = http.post("/bills/preview", json=body).json()

    of_the_store = ("id", "dtCreated", "createdDate", "dtLastModified", "lastCalculatedDate")
    of_the_store += ("createdBy", "lastModifiedBy", "billJobId")

    def content(bill):
        lines = [{k: v for k, v in line.items() if k != "id"} for line in bill["lineItems"]]
        return {k: v for k, v in bill.items() if k not in of_the_store} | {"lineItems": lines}

    assert (shown["billTotal"], len(shown["lineItems"])) == (73.5, 2)
    assert content(shown) == content(made)
    assert again | {"lastCalculatedDate": made["lastCalculatedDate"]} == made


@pytest.mark.long
def test_what_has_no_bill_is_told_with_the_reason(server):
    ids = accounts(server)
    with server.http() as http:
        body = {**MONTHLY, "billDate": "2026-10-15", "accountIds": [ids["acme"]]}
        other_day = http.post("/bills/preview", json=body)
        refuse_bills(server, "acme")
        refused = http.post("/bills/preview", json={**body, "billDate": OCTOBER_1})

    assert other_day.status_code == refused.status_code == httpx.codes.CONFLICT
    assert "its next bill is of 2026-11-01" in other_day.json()["message"]
    assert REFUSED in refused.json()["message"]


@contextmanager
def robot(server, *actions):
    """A client of a service user that may do some things."""
    statement = {"effect": "allow", "action": list(actions), "resource": ["*"]}
    with server.http() as http:
        made = {"name": " ".join(actions), "permissionPolicy": [statement]}
        policy = http.post("/permissionpolicies", json=made).json()["id"]
        user = http.post("/serviceusers", json={"name": "Robot"}).json()["id"]
        to = f"/permissionpolicies/{policy}/addtoserviceuser"
        http.post(to, json={"principalId": user}).raise_for_status()
        key = http.post(f"/serviceusers/{user}/accesskeys", json={}).json()
    asked = {"grant_type": "client_credentials"}
    given = httpx.post(f"{server.url}/oauth/token", json=asked, auth=(key["id"], key["apiSecret"]))
    with server.http(given.json()["access_token"]) as client:
        yield client


@pytest.mark.long
def test_who_may_only_read_makes_no_bills_and_cancels_none(server, jobs):
    made = jobs.create(bill_date=date(2026, 10, 1))
    preview = {**MONTHLY, "billDate": OCTOBER_1, "accountIds": [accounts(server)["acme"]]}
    with robot(server, "config:retrieve") as client:
        assert client.get(f"/billjobs/{made.id}").json()["status"] == "PENDING"
        assert client.post("/bills/preview", json=preview).status_code == httpx.codes.OK
        for path, body in (
            ("/billjobs", {"billDate": OCTOBER_1}),
            ("/billjobs/recalculate", {"billIds": [NO_ID]}),
            (f"/billjobs/{made.id}/cancel", {}),
        ):
            assert client.post(path, json=body).status_code == httpx.codes.FORBIDDEN, path
    assert jobs.retrieve(made.id).status == "PENDING"


@pytest.mark.long
def test_jobs_and_approvals_are_the_same_on_postgresql(tmp_path, postgresql):
    grace = {"autoApproveBillsGracePeriod": 1, "autoApproveBillsGracePeriodUnit": "MINUTES"}
    with (
        served(tmp_path / "home", state=new_database(postgresql)) as server,
        server.sdk() as sdk,
    ):
        configure(server.organization, meters=[EGRESS], accounts=ACCOUNTS)
        configure(server.organization, organizationConfig={"daysBeforeBillDue": 14, **grace})
        price_egress(server)
        subscribe(server, "acme", "bolt")
        made = [sdk.bill_jobs.create(bill_date=date(2026, 10, 1)) for _ in range(10)]
        with pytest.raises(m3ter.RateLimitError):
            sdk.bill_jobs.create(bill_date=date(2026, 10, 1))
        server.stores.state.jobs.take(made[1].id, 1)
        assert [each.id for each in sdk.bill_jobs.list(status="INITIALIZING")] == [made[1].id]
        assert list(sdk.bill_jobs.list(status="RUNNING")) == []

        run(server, made[0])

        assert sdk.bill_jobs.retrieve(made[0].id).pending == 0
        assert approve_due(server.organization) == 2
        price_egress(server, price=7)
        subscribe(server, "acme", start="2026-09-16T00:00:00Z")
        run(server, made[2])
        assert stored(server)["acme", OCTOBER_1].status == "PENDING"
        assert approve_due(server.organization) == 0


@pytest.mark.slow
def test_the_worker_of_a_home_runs_the_jobs_that_are_asked_for(server, jobs):
    made = jobs.create(bill_date=date(2026, 10, 1))
    home = {"METERLAKE_HOME": str(server.settings.home), "PATH": os.environ["PATH"]}
    path = os.pathsep.join(filter(None, sys.path))
    worker = subprocess.Popen(
        [sys.executable, "-m", "meterlake.worker"],
        env={**home, "PYTHONPATH": path},
        cwd=server.settings.home,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + 60
        while jobs.retrieve(made.id).status != "COMPLETE" and time.monotonic() < give_up:
            time.sleep(0.2)
    finally:
        worker.terminate()
        worker.wait()

    job = jobs.retrieve(made.id)
    assert (job.status, job.total, job.pending) == ("COMPLETE", 2, 0)
    assert sorted(job.bill_ids) == sorted(each.id for each in stored(server).values())


def told_at_the_end(sdk, job):
    """What the job says, as the event of its end says it, too."""
    ended = sdk.bill_jobs.retrieve(job.id)
    assert ended.status == "COMPLETE"
    events = sdk.events.list(event_name="billing.billjob.updated", resource_id=job.id).data
    said = {each.m3ter_event["eventData"]["newDto"].get("message") for each in events}
    message = ended.to_dict().get("message")
    assert said == ({message} if message is None else {message, None})
    return message


@pytest.mark.long
def test_a_job_that_makes_no_bill_says_why(server):
    sdk, ids = server.sdk(), accounts(server)
    configure(
        server.organization,
        accounts=[{"code": "idle", "name": "Idle", "emailAddress": "a@idle.example"}],
    )
    cases = {
        (ids["acme"],): "No bill was made: acme: its next bill is of 2026-10-01",
        (
            accounts(server)["idle"],
        ): "No bill was made: idle: it is on no plan that has a bill of 2026-09-15",
        (): "No bill was made: acme: its next bill is of 2026-10-01; "
        "bolt: its next bill is of 2026-10-01",
    }
    for chosen, message in cases.items():
        named = {"account_ids": list(chosen)} if chosen else {}
        job = sdk.bill_jobs.create(**named, bill_date=date(2026, 9, 15))
        run(server, job)
        assert told_at_the_end(sdk, job) == message


@pytest.mark.long
def test_a_job_whose_accounts_cannot_all_be_billed_says_who_and_why(server):
    sdk, ids = server.sdk(), accounts(server)
    refuse_bills(server, "bolt")
    both = sdk.bill_jobs.create(bill_date=date(2026, 10, 1))
    run(server, both)
    assert told_at_the_end(sdk, both) == f"Not billed: bolt: {REFUSED}"
    alone = sdk.bill_jobs.create(account_ids=[ids["bolt"]], bill_date=date(2026, 10, 1))
    run(server, alone)
    assert told_at_the_end(sdk, alone) == f"No bill was made: bolt: {REFUSED}"
    billed = sdk.bill_jobs.create(account_ids=[ids["acme"]], bill_date=date(2026, 10, 1))
    run(server, billed)
    assert told_at_the_end(sdk, billed) is None


def test_a_job_of_an_organization_without_plans_says_so(bare):
    sdk = bare.sdk()
    job = sdk.bill_jobs.create(bill_date=date(2026, 10, 1))
    run(bare, job)
    message = "No bill was made: no account is on a plan that has a bill of 2026-10-01"
    assert told_at_the_end(sdk, job) == message
