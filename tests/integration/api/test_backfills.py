"""Backfills over HTTP: staged by the worker, looked at, then applied, dropped or reverted."""

import base64

import pytest
from sqlalchemy import select, update

from meterlake.model.errors import Unavailable
from meterlake.model.values import failpoint, wire
from meterlake.pipeline.backfill.background import BACKFILL_STEPS, KIND, run_step
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.state.ingest.backfills import BACKFILL
from meterlake.stores.state.jobs import LEASES
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import BACKFILLS
from tests.e2e.api.test_authorization import policy, service_user, statement, token_of
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.rounds import go_round
from tests.served import served

TRAFFIC = {
    "code": "traffic",
    "name": "Traffic",
    "meterId": "egress",
    "aggregation": "SUM",
    "targetField": "gb",
    "unit": "GB",
    "quantityPerUnit": 1,
    "rounding": "NONE",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("backfills") / "home") as found:
        content = {"meters": [EGRESS], "accounts": ACCOUNTS, "aggregations": [TRAFFIC]}
        configure(found.organization, **content)
        yield found


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def file(server, request):
    """The name of an ingested file of this test's own; it has three rows."""
    name = f"{request.node.name}.csv"
    rows = "".join(csv_row(f"{number}-{name}"[:50]) for number in range(3))
    home = Home(server.stores, server.org_id, Clock())
    assert home.ingest(name, HEADER + rows).accepted == 3
    return name


def work(server):
    """One round of the worker."""
    executor = Executor(server.settings)
    list(run_round(BACKFILL_STEPS, executor, server.organization, lambda: False))


def posted(http, path="", status=200, **body):
    answer = http.post(f"/backfills{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def got(http, path, expected=200, **query):
    answer = http.get(f"/backfills{path}", params=query)
    assert answer.status_code == expected, answer.text
    return answer.json()


def staged(server, http, id_, **body):
    started = posted(http, id=id_, **body)
    assert (started["status"], started["pending"]) == ("STAGING", "stage")
    work(server)
    found = got(http, f"/{id_}")
    assert "pending" not in found
    return found


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "mode"),
        ({"mode": "retracted"}, "mode"),
        ({"mode": "retract"}, "reason"),
        ({"mode": "retract", "reason": "x"}, "source or uids"),
        ({"mode": "retract", "reason": "x", "source": "gone.csv"}, "gone.csv"),
        ({"mode": "re-derive"}, "window"),
        ({"mode": "re-derive", "month": "2026-13"}, "2026-13"),
        ({"mode": "re-aggregate", "month": "2026-09", "meter": "egress"}, "meters"),
        ({"mode": "re-derive", "since": "2026-09-02", "until": "2026-09-01"}, "until"),
        ({"mode": "re-aggregate", "since": "1001-01-01", "until": "2026-09-01"}, "36,525 days"),
        ({"mode": "re-derive", "month": "2026-09", "meters": ["egres"]}, "egres"),
        ({"mode": "re-derive", "month": "2026-09", "accounts": ["nobody"]}, "nobody"),
        ({"mode": "re-derive", "month": "2026-09", "id": "../up"}, "id"),
        ({"mode": "replace", "month": "2026-09"}, "files"),
        ({"mode": "replace", "month": "2026-09", "files": [{"name": "a.csv"}]}, "content"),
        (
            {"mode": "replace", "month": "2026-09", "files": [{"name": "../a", "content": ""}]},
            "files[0].name",
        ),
        (
            {"mode": "replace", "month": "2026-09", "files": [{"name": "a", "content": "?"}]},
            "files[0].content",
        ),
        ({"id": "there", "reason": "x"}, "mode"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(http, body, told):
    before = got(http, "")["data"]

    assert told in posted(http, status=400, **body)["message"]
    assert got(http, "")["data"] == before


@pytest.mark.parametrize("path", ["/gone", "/gone/difference", "/..%2Fup", "/%00"])
def test_what_is_not_there_is_404(http, path):
    got(http, path, 404)


@pytest.mark.parametrize("step", ["apply", "drop", "revert"])
def test_nothing_is_done_with_what_is_not_there(http, step):
    posted(http, f"/gone/{step}", 404)


@pytest.mark.long
@pytest.mark.sees(
    "StartBackfill",
    "GetBackfill",
    "ApplyBackfill",
    "GetBackfillDifference",
    "GetBackfillMeasurements",
    "RevertBackfill",
)
def test_a_file_is_withdrawn_and_comes_back(server, http, file):
    about = {"mode": "retract", "source": file, "reason": "sent twice"}
    found = staged(server, http, "sent-twice", **about)
    assert (found["status"], found["counts"]["measurementsGone"]) == ("STAGED", 3)
    assert [each["action"] for each in found["history"]] == ["stage"]
    assert found["history"][0]["author"].startswith("SERVICE_USER_")

    difference = got(http, "/sent-twice/difference")
    assert [each["account"] for each in difference["quantities"]] == ["acme"]
    [entry] = difference["quantities"]
    after = entry.get("after", {"measurements": 0})
    gone = entry["before"]["measurements"] - after["measurements"]
    assert (gone, entry["aggregation"]) == (3, "traffic")
    changed = got(http, "/sent-twice/measurements")
    assert (changed["more"], len(changed["rows"])) == (False, 3)
    assert {each["account"] for each in changed["rows"]} == {"acme"}
    assert all("after" not in each and "measure.gb" in each["before"] for each in changed["rows"])
    posted(http, "/sent-twice/revert", 409)

    for step, status in (("apply", "APPLIED"), ("revert", "REVERTED")):
        assert posted(http, f"/sent-twice/{step}")["pending"] == step
        # Asked for again, it is the same step.
        assert posted(http, f"/sent-twice/{step}")["pending"] == step
        other = "revert" if step == "apply" else "apply"
        posted(http, f"/sent-twice/{other}", 409)
        work(server)
        assert got(http, "/sent-twice")["status"] == status
        done = posted(http, f"/sent-twice/{step}")
        assert (done["status"], "pending" in done) == (status, False)
    receipt = http.get("/measurements/receipt", params={"uid": f"0-{file}"[:50]})
    assert receipt.json()["status"] == "accepted"
    # With its id alone it is staged once more.
    assert posted(http, id="sent-twice")["pending"] == "stage"
    work(server)
    assert posted(http, "/sent-twice/drop")["status"] == "DROPPED"
    posted(http, "/sent-twice/apply", 409)
    got(http, "/sent-twice/measurements", 409)
    posted(http, status=409, id="sent-twice")
    log = http.get("/auditlog", params={"kinds": "runs"}).json()["data"]
    steps = [each["name"] for each in log if each["name"].startswith("backfill ")]
    assert steps[:4] == [f"backfill {each}" for each in ("stage", "revert", "apply", "stage")]


def test_a_difference_shows_bills_only_to_who_may_read_them(server, http, file):
    """Reading by any verb needs the right to read: quantities are there, the denied bill is not."""
    id_ = "of-bills"
    staged(server, http, id_, mode="retract", source=file, reason="x")
    bills = ["0b111111-0000-4000-8000-000000000021", "0b111111-0000-4000-8000-000000000022"]
    row = (BACKFILL.c.org == server.org_id) & (BACKFILL.c.id == id_)
    with server.stores.state.writing_home() as connection:
        summary = wire.loads(connection.execute(select(BACKFILL.c.summary).where(row)).scalar_one())
        summary["bills"] = [{"billId": each, "account": "acme"} for each in bills]
        text = wire.dumps(summary).decode()
        connection.execute(update(BACKFILL).where(row).values(summary=text))
    denied = statement("deny", ["all"], f"config:bill/item/{bills[0]}")
    everything = statement("allow", ["all"], "*")
    no_bills = statement("allow", ["all"], "config:backfill/*")

    shown = []
    for name, given in (("some", (everything, denied)), ("none", (no_bills,))):
        _, key, secret = service_user(http, policy(http, name, *given))
        with server.http(token_of(server, key, secret)) as client:
            found = got(client, f"/{id_}/difference")
            shown.append([each["billId"] for each in found["bills"]])
            assert found["quantities"]
            got(client, f"/{id_}/measurements", 403 if name == "none" else 200)
    assert [each["billId"] for each in got(http, f"/{id_}/difference")["bills"]] == bills
    assert shown == [[bills[1]], []]


def test_staging_again_by_an_id_shows_only_what_one_may_read(server, http):
    """It is answered with the backfill that is there: who may not read it starts nothing either."""
    staged(server, http, "restaged", mode="re-derive", month="2026-09")
    posted(http, "/restaged/drop")
    writer = statement("allow", ["config:create"], "config:backfill/*")
    reader = statement("allow", ["config:create", "config:retrieve"], "config:backfill/*")
    denied = statement("deny", ["config:retrieve"], "config:backfill/item/restaged")

    statuses = []
    for name, given in (("w", (writer,)), ("d", (reader, denied)), ("r", (reader,))):
        _, key, secret = service_user(http, policy(http, name, *given))
        with server.http(token_of(server, key, secret)) as client:
            answer = client.post("/backfills", json={"id": "restaged"})
            statuses.append(answer.status_code)
            assert "history" not in answer.json() or name == "r"
    # What was dropped is not staged again, but who may read it is told so.
    assert statuses == [403, 403, 409]


def test_the_worker_runs_what_waits(server, http):
    posted(http, id="worked", mode="re-derive", month="2026-09")
    waiting = server.stores.state.jobs.waiting
    go_round(BACKFILLS, server.stores, lambda: not waiting(server.org_id, KIND), every=0)

    assert got(http, "/worked")["status"] == "STAGED"


@pytest.mark.long
def test_files_take_the_place_of_measurements(server, http, file):
    text = HEADER + csv_row(f"0-{file}"[:50], "7")
    content = base64.b64encode(text.encode()).decode()
    files = [{"name": "mended.csv", "content": content}]
    about = {"mode": "replace", "month": "2026-09", "meters": [EGRESS["code"]], "files": files}
    found = staged(server, http, "mended", **about)

    assert (found["status"], found["files"]) == ("STAGED", ["mended.csv"])
    difference = got(http, "/mended/difference")
    assert [each["accepted"] for each in difference["files"]] == [1]
    posted(http, "/mended/apply")
    work(server)
    assert got(http, "/mended")["status"] == "APPLIED"
    # The same again changes nothing; with other files it is refused.
    assert posted(http, id="mended", **about)["status"] == "APPLIED"
    other = [{"name": "mended.csv", "content": base64.b64encode(b"other").decode()}]
    assert (
        "another" in posted(http, status=409, id="mended", **{**about, "files": other})["message"]
    )
    posted(http, "/mended/revert")
    work(server)


@pytest.mark.long
@pytest.mark.usefixtures("file")
def test_a_step_that_cannot_be_done_is_in_the_history(server, http):
    month = {"mode": "re-aggregate", "month": "2026-09"}
    staged(server, http, "overtaken", **month)
    home = Home(server.stores, server.org_id, Clock())
    home.ingest("later.csv", HEADER + csv_row("later"))
    posted(http, "/overtaken/apply")
    work(server)

    found = got(http, "/overtaken")
    assert (found["status"], "pending" in found) == ("STAGED", False)
    assert (found["history"][-1]["action"], "changed" in found["history"][-1]["detail"]) == (
        "fail",
        True,
    )
    assert staged_again(server, http, "overtaken", month) == "STAGED"
    posted(http, "/overtaken/apply")
    work(server)
    assert got(http, "/overtaken")["status"] == "APPLIED"


def staged_again(server, http, id_, about):
    assert posted(http, id=id_, **about)["pending"] == "stage"
    work(server)
    return got(http, f"/{id_}")["status"]


@pytest.mark.long
@pytest.mark.usefixtures("file")
def test_what_the_world_broke_waits_for_the_next_round(server, http, monkeypatch):
    left = [Unavailable("lake", "gone")]

    def fail_once(name):
        if name == "backfill.staged" and left:
            raise left.pop()

    monkeypatch.setattr(failpoint, "hook", fail_once)
    posted(http, id="broken", mode="re-derive", month="2026-09")
    with pytest.raises(Unavailable):
        work(server)
    assert got(http, "/broken")["pending"] == "stage"
    work(server)

    found = got(http, "/broken")
    assert (found["status"], len(found["history"])) == ("STAGED", 1)


@pytest.mark.long
@pytest.mark.usefixtures("file")
def test_a_dead_workers_step_is_run_by_the_next(server, http, monkeypatch):
    class Killed(BaseException):
        """The process is gone."""

    def die(name):
        if name == "backfill.staged":
            raise Killed

    posted(http, id="killed", mode="re-derive", month="2026-09")
    [job] = server.stores.state.jobs.waiting(server.org_id, KIND)
    monkeypatch.setattr(failpoint, "hook", die)
    with pytest.raises(Killed):
        run_step(server.stores, job.id)
    assert got(http, "/killed")["pending"] == "stage"
    monkeypatch.setattr(failpoint, "hook", lambda _: None)
    # Its lease runs out.
    ahead = server.stores.now() + 2 * LEASES[KIND]
    monkeypatch.setattr(server.stores.state.jobs, "_now", lambda: ahead)
    work(server)

    assert got(http, "/killed")["status"] == "STAGED"


@pytest.mark.long
@pytest.mark.usefixtures("file")
@pytest.mark.sees("ListBackfills", "DropBackfill")
def test_lists_are_pages_and_one_of_a_status(server, http):
    for number in range(3):
        staged(server, http, f"page-{number}", mode="re-derive", month="2026-09")
    posted(http, "/page-1/drop")

    first = got(http, "", pageSize=2)
    second = got(http, "", pageSize=2, nextToken=first["nextToken"])
    assert [each["id"] for each in first["data"]] == ["page-2", "page-1"]
    assert second["data"][0]["id"] == "page-0"
    assert "quantities" not in first["data"][0]
    dropped = got(http, "", status="DROPPED")["data"]
    assert {each["status"] for each in dropped} == {"DROPPED"}
    assert "status" in got(http, "", 400, status="gone")["message"]
    got(http, "", 400, nextToken="x")


@pytest.mark.usefixtures("file")
def test_whoever_may_look_may_not_change(server, http):
    staged(server, http, "looked-at", mode="re-derive", month="2026-09")
    looks = policy(http, "looks", statement("allow", ["config:retrieve"], "config:backfill/*"))
    begins = policy(http, "begins", statement("allow", ["config:create"], "config:backfill/*"))
    decides = policy(
        http, "decides", statement("allow", ["config:update"], "config:backfill/item/other")
    )
    uploads = policy(http, "uploads", statement("allow", ["measurements:upload"], "*:*/*"))
    allowed = {
        looks: {("GET", ""), ("GET", "/looked-at"), ("GET", "/looked-at/difference")},
        begins: {("POST", "")},
        decides: set(),
        uploads: set(),
    }
    calls = [("GET", ""), ("GET", "/looked-at"), ("GET", "/looked-at/difference"), ("POST", "")]
    calls += [("POST", f"/looked-at/{step}") for step in ("apply", "drop", "revert")]
    for one, may in allowed.items():
        _, key, secret = service_user(http, one)
        with server.http(token_of(server, key, secret)) as client:
            body = {"json": {"mode": "?"}}
            statuses = {
                (method, path): client.request(
                    method, f"/backfills{path}", **(body if method == "POST" else {})
                ).status_code
                for method, path in calls
            }
        assert {call for call, status in statuses.items() if status != 403} == may
    assert got(http, "/looked-at")["status"] == "STAGED"
