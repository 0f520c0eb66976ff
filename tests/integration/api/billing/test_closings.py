"""Closings of months over HTTP: made ready by the worker, looked at, approved, rejected, reopened."""

import pytest

from meterlake.api.responses.closings import ClosingLeftResponse
from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Conflict
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import set_status
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.closing.close_month import Closing, ClosingStep
from meterlake.pipeline.closing.closing_requests import CLOSING_STEPS
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.bills import price_egress, refuse_bills, subscribe
from tests.e2e.api.test_authorization import policy, service_user, statement, token_of
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

MONTH = "2026-09"


def use_egress(home):
    """Acme used 40 in September, and bolt nothing."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt", start="2026-09-01T00:00:00Z")
    ingest(home, "first", 40)


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def ingest(server, name, units):
    row = csv_row(name, units, "acme", ts="2026-09-03T10:00:00Z")
    Home(server.stores, server.org_id, Clock()).ingest(f"{name}.csv", HEADER + row)


def work(server):
    """One round of the worker."""
    executor = Executor(server.settings)
    list(run_round(CLOSING_STEPS, executor, server.organization, lambda: False))


def post(http, verb, status=200, month=MONTH, **body):
    answer = http.post(f"/closings/{month}/{verb}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_what_is_open_is_that_of_now_however_often_somebody_looked(server, http):
    def open_points():
        found = http.get(f"/closings/{MONTH}").json()["open"]
        return sorted({(each["kind"], each["subject"]) for each in found})

    assert open_points() == open_points() == [("MissingBill", "acme"), ("MissingBill", "bolt")]
    assert bill(server.organization, Month.parse(MONTH)).failures == []
    assert open_points() == []
    refuse_bills(Home(server.stores, server.org_id, Clock()), "bolt")
    assert open_points() == [("FailedAccount", "bolt")]


def get(http, status=200):
    answer = http.get(f"/closings/{MONTH}")
    assert answer.status_code == status, answer.text
    return answer.json()


def reviewed(server, http):
    """The closing as it waits for its approval."""
    assert post(http, "review") == {"month": MONTH, "pending": "review"}
    work(server)
    return get(http)


def closed(server, http):
    """The closing of a month that was closed."""
    post(http, "approve", review=reviewed(server, http)["review"])
    work(server)
    return get(http)


@pytest.mark.long
@pytest.mark.sees("GetClosing", "ReviewClosing", "ApproveClosing")
def test_a_month_is_closed_over_the_api_with_what_was_looked_at(server, http):
    assert (get(http)["status"], get(http)["bills"]) == ("NOT_STARTED", [])
    assert "do not wait for a review" in post(http, "approve", 409, review="?")["message"]

    seen = reviewed(server, http)

    assert (seen["status"], seen["open"], seen["left"]) == ("IN_REVIEW", [], [])
    found = [(each["account"], each["total"], each["status"]) for each in seen["bills"]]
    assert found == [("acme", 71, "PENDING"), ("bolt", 31, "PENDING")]
    assert "pending" not in seen
    post(http, "approve", review=seen["review"])
    work(server)
    found = get(http)
    assert found["status"] == "CLOSED"
    assert [each["step"] for each in found["steps"]] == [each.value for each in ClosingStep]
    assert all(each["author"].startswith("SERVICE_USER_") and each["at"] for each in found["steps"])
    assert {each["status"] for each in found["bills"]} == {"APPROVED"}
    assert "is closed" in post(http, "review", 409)["message"]
    assert "is closed" in post(http, "reject", 409, reason="a price")["message"]


@pytest.mark.long
def test_a_bill_that_is_left_as_it_was_says_what_it_would_be_and_what_differs(server, http):
    bill(server.organization, Month.parse(MONTH))
    [acme] = [each for each in get(http)["bills"] if each["account"] == "acme"]
    set_status(server.organization, "finance", acme["id"], BillStatus.APPROVED)
    ingest(server, "second", 5)

    [left] = reviewed(server, http)["left"]

    assert (left["total"], left["wouldBe"]) == ("71.00 USD", "76.00 USD")
    shown = ClosingLeftResponse.model_fields.values()
    assert set(left) == {field.alias for field in shown}


@pytest.mark.long
def test_a_file_between_review_and_approval_is_looked_at_first(server, http):
    seen = reviewed(server, http)
    ingest(server, "second", 5)

    assert post(http, "approve", review=seen["review"])["pending"] == "approve"
    work(server)

    refused = get(http)
    assert refused["status"] == "STARTED"
    assert refused["failed"] == (
        "the bills of 2026-09 have changed since they were reviewed: those of acme;"
        " look at them again with `POST /closings/2026-09/review`"
    )
    assert {each["status"] for each in refused["bills"]} == {"PENDING"}
    again = reviewed(server, http)
    assert (again["bills"][0]["total"], "failed" in again) == (76, False)
    told = post(http, "approve", 409, review=seen["review"])["message"]
    assert "have changed since that review; look at them again with `GET /closings/2026-09`" in told


@pytest.mark.long
def test_a_review_is_made_again_from_what_came_after_it(server, http):
    before = reviewed(server, http)
    ingest(server, "second", 5)

    again = reviewed(server, http)

    assert [each["total"] for each in before["bills"]] == [71, 31]
    assert [each["total"] for each in again["bills"]] == [76, 31]
    assert (again["status"], again["review"] != before["review"]) == ("IN_REVIEW", True)
    post(http, "approve", review=again["review"])
    work(server)
    assert get(http)["status"] == "CLOSED"


@pytest.mark.long
def test_a_review_of_what_has_not_changed_stays_the_same(server, http):
    before = reviewed(server, http)

    assert reviewed(server, http)["review"] == before["review"]


def test_a_review_that_waits_is_cancelled_and_asked_for_again(server, http):
    post(http, "review")
    [waiting] = http.get("/runs", params={"kinds": "CLOSING_STEP"}).json()["data"]
    assert waiting["actions"] == ["cancel"]

    cancelled = http.post(f"/runs/{waiting['id']}/cancel").json()

    assert (cancelled["status"], cancelled["actions"]) == ("CANCELLED", ["retry"])
    work(server)
    assert (get(http)["status"], "pending" in get(http)) == ("NOT_STARTED", False)
    again = http.post(f"/runs/{waiting['id']}/retry").json()
    assert (again["id"] != waiting["id"], again["status"]) == (True, "PENDING")
    server.stores.state.jobs.take(again["id"], None)
    refused = http.post(f"/runs/{again['id']}/cancel")
    assert (refused.status_code, http.get(f"/runs/{again['id']}").json()["actions"]) == (409, [])
    assert "runs already and ends by itself" in refused.json()["message"]


@pytest.mark.long
def test_what_is_pending_is_asked_for_once(server, http):
    assert post(http, "review")["pending"] == "review"
    assert (post(http, "review")["pending"], get(http)["pending"]) == ("review", "review")
    told = post(http, "review", 409, files=["a.csv"])["message"]
    assert told == ("something else is pending for 2026-09: review; try again when that has ended")
    work(server)
    assert get(http)["status"] == "IN_REVIEW"


@pytest.mark.long
def test_what_is_approved_is_not_rejected_before_that_has_ended(server, http):
    post(http, "approve", review=reviewed(server, http)["review"])

    told = post(http, "reject", 409, reason="a price")["message"]

    assert told == "something else is pending for 2026-09: approve; try again when that has ended"
    work(server)
    assert get(http)["status"] == "CLOSED"


def test_a_worker_that_is_stopped_on_the_way_leaves_the_job_to_the_next_one(
    server, http, monkeypatch
):
    post(http, "approve", review=reviewed(server, http)["review"])

    def stop(name):
        if name == "export.submitted":
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoint, "hook", stop)
    with pytest.raises(KeyboardInterrupt):
        work(server)
    monkeypatch.setattr(failpoint, "hook", None)
    assert (get(http)["status"], get(http)["pending"]) == ("APPROVED", "approve")
    work(server)

    assert get(http)["status"] == "CLOSED"
    exports = server.stores.state.jobs.recent(server.org_id, "export")
    assert [each.status.value for each in exports] == ["COMPLETE", "COMPLETE"]


@pytest.mark.long
@pytest.mark.sees("ReopenClosing")
def test_a_closed_month_is_opened_again_with_a_reason(server, http):
    closed(server, http)

    opened = post(http, "reopen", reason="a file was forgotten")

    assert opened["undone"] == {"pendingBills": 2}
    assert len(opened["kept"]["manifests"]) == 2
    found = get(http)
    assert found["status"] == "STARTED"
    [again] = found["reopenings"]
    assert again["reason"] == "a file was forgotten"
    # The round that it ended is kept, and all of it is to be done again.
    assert [each["step"] for each in again["steps"]] == found["remaining"]
    assert all(each["author"] for each in again["steps"])
    assert {each["status"] for each in found["bills"]} == {"PENDING"}


def test_a_month_is_closed_without_a_bill_that_somebody_doubts(server, http):
    seen = reviewed(server, http)
    doubted = {"bill": "bolt", "reason": "its usage is in doubt"}
    for name, status, told in (("nobody", 404, "nobody"), ("acme/2026-08", 404, "2026-08")):
        unknown = [{**doubted, "bill": name}]
        answer = post(http, "approve", status, review=seen["review"], leaveOpen=unknown)
        assert told in answer["message"]
    nameless = {"review": seen["review"], "leaveOpen": [{"bill": "bolt", "reason": " "}]}
    assert "leaveOpen" in post(http, "approve", 400, **nameless)["message"]

    post(http, "approve", review=seen["review"], leaveOpen=[doubted])
    work(server)

    found = get(http)
    assert found["status"] == "CLOSED"
    statuses = {each["account"]: each["status"] for each in found["bills"]}
    assert statuses == {"acme": "APPROVED", "bolt": "PENDING"}
    [bolt] = [each for each in found["bills"] if each["account"] == "bolt"]
    [open_] = found["open"]
    assert open_ == {
        "kind": "LeftOpen",
        "subject": "bolt",
        "detail": "the month was approved without it: its usage is in doubt",
        "command": f"meterlake bill approve {bolt['id']}",
        "billId": bolt["id"],
        "amount": 31,
        "currency": "USD",
    }
    [step] = [each for each in found["steps"] if each["step"] == "review"]
    assert step["author"].startswith("SERVICE_USER_")
    assert step["outcome"]["approved"] == 1
    left = [{"billId": bolt["id"], "reason": "its usage is in doubt"}]
    assert step["outcome"]["leftOpen"] == left

    # It gets an approval of its own, and who left it open, and why, stays known.
    set_status(server.organization, "finance", bolt["id"], BillStatus.APPROVED)
    assert get(http)["open"] == []
    post(http, "reopen", reason="a file was forgotten")
    [again] = get(http)["reopenings"]
    [step] = [each for each in again["steps"] if each["step"] == "review"]
    assert step["outcome"]["leftOpen"] == left
    approved = {"bill": bolt["id"], "reason": "x"}
    set_status(server.organization, "finance", bolt["id"], BillStatus.APPROVED)
    told = post(http, "approve", 400, review="?", leaveOpen=[approved])["message"]
    assert "it must be a bill of 2026-09 that waits for an approval" in told


@pytest.mark.long
@pytest.mark.sees("RejectClosing")
def test_rejected_bills_say_why_until_the_month_is_looked_at_again(server, http):
    reviewed(server, http)

    assert post(http, "reject", reason="a price") == {"month": MONTH, "reason": "a price"}

    found = get(http)
    assert (found["status"], found["rejected"]) == ("REJECTED", "rejected: a price")
    assert "do not wait for a review" in post(http, "reject", 409, reason="x")["message"]
    assert reviewed(server, http)["status"] == "IN_REVIEW"


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "body", "status", "told"),
    [
        ("approve", {}, 400, "review"),
        ("reject", {"reason": " "}, 400, "reason"),
        ("reopen", {}, 400, "reason"),
        ("reopen", {"reason": "x"}, 409, "is not closed"),
        ("review", {"early": "perhaps"}, 400, "early"),
    ],
)
def test_what_makes_no_sense_is_refused(http, verb, body, status, told):
    assert told in post(http, verb, status, **body)["message"]
    assert get(http)["status"] == "NOT_STARTED"


@pytest.mark.long
def test_months_that_are_none_or_not_over_are_refused(http):
    assert "2026-13" in post(http, "review", 400, month="2026-13")["message"]
    assert "has not begun" in post(http, "review", 409, month="2099-01")["message"]


@pytest.mark.long
def test_refusals_name_operations_and_members_not_commands(server, http):
    goes_on = "`POST /closings/2026-09/review`"
    for verb, body in {"approve": {"review": "?"}, "reject": {"reason": "x"}}.items():
        assert f"make them ready with {goes_on}" in post(http, verb, 409, **body)["message"]
    told = [post(http, "reopen", 409, reason="x")["message"]]
    assert f"{goes_on} goes on with it" in told[0]
    today = server.stores.now()
    told.append(post(http, "review", 409, month=f"{today:%Y-%m}")["message"])
    assert "`early` with true closes it now" in told[1]
    assert "T00:00:00Z: usage still comes in" in told[1]
    closed(server, http)
    for verb, body in {"review": {}, "reject": {"reason": "x"}}.items():
        told.append(post(http, verb, 409, **body)["message"])
        assert "open it again with `POST /closings/2026-09/reopen` with a `reason`" in told[-1]
    assert not [each for each in told if "--" in each or "meterlake" in each]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("erly", "erly is no member of ReviewClosing and was ignored: did you mean early?"),
        ("colour", "colour is no member of ReviewClosing and was ignored: it takes backfills, early, "),
        ("early", None),
    ],
)  # fmt: skip
def test_a_member_that_means_nothing_is_told_with_the_nearest(http, name, told):
    answer = http.post(f"/closings/{MONTH}/review", json={name: True})

    assert answer.status_code == 200
    assert (told or "") in answer.headers.get("Warning", "")
    assert ("Warning" in answer.headers) == (told is not None)


@pytest.mark.long
def test_a_file_that_is_missing_is_named(server, http):
    post(http, "review", files=["usage-*.csv"])
    work(server)

    assert get(http)["failed"] == (
        "no file usage-*.csv came in time; deliver it, or expect it no more, and close the month"
        " again"
    )


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_named_with_the_reason(server, http):
    Home(server.stores, server.org_id, Clock()).drop("bad.csv", "colour,size\nred,1\n")
    post(http, "review")
    work(server)

    assert get(http)["failed"] == (
        "1 file could not be read: bad.csv: MissingHeader: no column meter, account, ts among"
        " colour, size; add it, or say with a mapping which column it is. Mend what is wrong,"
        " deliver what was mended, and close the month again"
    )


@pytest.mark.long
def test_an_account_that_cannot_be_billed_is_named_with_the_reason(server, http):
    refuse_bills(Home(server.stores, server.org_id, Clock()), "acme")
    post(http, "review")
    work(server)

    assert get(http)["failed"] == (
        "1 account could not be billed: acme: the organization has no conversion rate from EUR"
        " to USD; add it to currencyConversions. Mend that, and close the month again"
    )


RIGHTS = ["config:retrieve", "config:update"]
ALL, ONE = "config:bill/*", "config:bill/item/0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11"


@pytest.mark.long
@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([statement("ALLOW", ["config:retrieve"], ALL)], {"get"}),
        ([statement("ALLOW", RIGHTS, ALL)], {"get", "review", "approve", "reject", "reopen"}),
        # Who may not see one bill would see it here.
        ([statement("ALLOW", RIGHTS, ALL), statement("DENY", RIGHTS, ONE)], set()),
        ([statement("ALLOW", RIGHTS, "config:account/*")], set()),
    ],
)
def test_closing_a_month_needs_the_rights_to_all_bills(server, http, statements, allowed):
    _, key, secret = service_user(http, policy(http, "closer", *statements))
    bodies = {"review": {}, "approve": {"review": "x"}}
    with server.http(token_of(server, key, secret)) as other:
        answers = {"get": other.get(f"/closings/{MONTH}").status_code}
        for verb in ("review", "approve", "reject", "reopen"):
            body = bodies.get(verb, {"reason": "x"})
            answers[verb] = other.post(f"/closings/{MONTH}/{verb}", json=body).status_code
    assert {verb for verb, status in answers.items() if status != 403} == allowed


@pytest.mark.long
def test_what_the_command_closed_is_seen_over_the_api(server, http):
    closing = Closing(server.organization, Month.parse(MONTH), "ann")
    reviewed(server, http)
    closing.reject("by the command")

    assert get(http)["rejected"] == "rejected: by the command"
    with pytest.raises(Conflict, match="is not closed"):
        closing.reopen("x")
