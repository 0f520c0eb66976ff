"""Two who decide about a month at once, over HTTP and by the command: one of them wins."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from meterlake.cli import run
from meterlake.model.errors import Unavailable
from meterlake.model.values import failpoint
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state import JobStatus
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, configure
from tests.integration.api.billing.test_closings import (
    MONTH,
    closed,
    get,
    ingest,
    reviewed,
    work,
)
from tests.served import served

GIVE_UP_S = 180


def use_egress(home):
    """Acme used 40 in September."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", start="2026-09-01T00:00:00Z")
    ingest(home, "first", 40)


@pytest.fixture
def server(home_database, tmp_path):  # noqa: ARG001
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def at_step(monkeypatch):
    """Has something done whenever a step is met."""

    def register(step, what):
        monkeypatch.setattr(failpoint, "hook", lambda name: what() if name == step else None)

    return register


def decide(http, verb, **body):
    """The status of an answer, and its message if it is a refusal."""
    answer = http.post(f"/closings/{MONTH}/{verb}", json=body)
    return answer.status_code, answer.json().get("message", "")


def decide_at_once(http, *decisions):
    """The answers of requests that are sent at the same time."""
    together = threading.Barrier(len(decisions))

    def send(decision):
        verb, body = decision
        together.wait(GIVE_UP_S)
        return decide(http, verb, **body)

    with ThreadPoolExecutor(len(decisions)) as pool:
        return list(pool.map(send, decisions))


def asked_steps(server):
    """What the worker was asked to do with months."""
    return server.stores.state.jobs.recent(server.org_id, JobKind.CLOSING_STEP)


@pytest.mark.slow
def test_of_two_who_approve_alike_both_are_heard_once(server, http):
    review = reviewed(server, http)["review"]

    found = decide_at_once(http, *[("approve", {"review": review})] * 2)

    assert found == [(200, "")] * 2
    assert [each.parameters["action"] for each in asked_steps(server)] == ["approve", "review"]
    work(server)
    assert get(http)["status"] == "CLOSED"


@pytest.mark.slow
def test_of_two_who_ask_for_different_things_one_is_told_of_the_other(server, http):
    review = reviewed(server, http)["review"]
    decisions = [("approve", {"review": review}), ("approve", {"review": review, "early": True})]

    found = decide_at_once(http, *decisions, ("review", {}))

    told = "something else is pending for 2026-09: "
    assert sorted(status for status, _ in found) == [200, 409, 409]
    assert all(message.startswith(told) for status, message in found if status == 409)
    assert len(asked_steps(server)) == 2


@pytest.mark.slow
def test_of_two_who_reject_one_is_told_that_nothing_waits(server, http, at_step):
    reviewed(server, http)
    together = threading.Barrier(2)
    at_step("closing.rejecting", lambda: together.wait(GIVE_UP_S))

    found = dict(decide_at_once(http, ("reject", {"reason": "a"}), ("reject", {"reason": "b"})))

    assert found == {
        200: "",
        409: (
            "the bills of 2026-09 do not wait for a review;"
            " make them ready with `POST /closings/2026-09/review`"
        ),
    }
    assert get(http)["rejected"] in {"rejected: a", "rejected: b"}


@pytest.mark.slow
def test_who_rejects_what_is_approved_at_that_moment_is_told_so(server, http, at_step):
    review = reviewed(server, http)["review"]
    approved = []

    def approve():
        with server.http() as other:
            approved.append(decide(other, "approve", review=review))

    at_step("closing.rejection_taken", approve)

    rejected = decide(http, "reject", reason="a price")

    told = "something else is pending for 2026-09: approve; try again when that has ended"
    assert (approved, rejected) == ([(200, "")], (409, told))
    work(server)
    assert get(http)["status"] == "CLOSED"


@pytest.mark.slow
def test_who_rejects_while_a_store_fails_leaves_the_month_to_the_next(server, http, at_step):
    reviewed(server, http)

    def fail():
        raise Unavailable("State", "its disk is full", "make room")

    at_step("closing.rejection_taken", fail)
    failed, _ = decide(http, "reject", reason="a price")
    [closing] = server.stores.state.jobs.recent(server.org_id, JobKind.CLOSING)
    at_step("", fail)

    assert (failed, closing.status, closing.lease_until) == (503, JobStatus.RUNNING, None)
    assert decide(http, "reject", reason="a price") == (200, "")


@pytest.mark.slow
def test_of_who_approves_and_who_rejects_one_wins(server, http):
    review = reviewed(server, http)["review"]

    found = decide_at_once(http, ("approve", {"review": review}), ("reject", {"reason": "a price"}))

    assert sorted(status for status, _ in found) == [200, 409]
    work(server)
    assert get(http)["status"] == ("CLOSED" if found[0][0] == 200 else "REJECTED")


@pytest.mark.slow
def test_what_the_command_approves_meanwhile_is_not_rejected(server, http, monkeypatch):
    reviewed(server, http)
    command = ["close-month", MONTH, "--home", str(server.settings.home)]
    assert run(command) == 0
    rejected, begun, asked = [], threading.Event(), threading.Event()

    def reject():
        rejected.append(decide(http, "reject", reason="a price"))

    thread = threading.Thread(target=reject)

    def at(name):
        # The bills are approved, and that is not written down yet.
        if name == "closing.step_done" and not begun.is_set():
            begun.set()
            thread.start()
            assert asked.wait(GIVE_UP_S)
        if name == "closing.rejecting":
            asked.set()
        # It is, and the command has not begun with its next step.
        if name == "closing.step_noted":
            thread.join(GIVE_UP_S)

    monkeypatch.setattr(failpoint, "hook", at)
    assert run([*command, "--approve"]) == 0

    assert [status for status, _ in rejected] == [409]
    assert "do not wait for a review" in rejected[0][1]
    found = get(http)
    assert (found["status"], {each["status"] for each in found["bills"]}) == (
        "CLOSED",
        {"APPROVED"},
    )


@pytest.mark.slow
def test_of_two_who_open_a_month_again_one_does(server, http, at_step):
    closed(server, http)
    together = threading.Barrier(2)
    at_step("closing.approvals_taken_back", lambda: together.wait(GIVE_UP_S))

    found = dict(decide_at_once(http, ("reopen", {"reason": "a"}), ("reopen", {"reason": "b"})))

    assert set(found) == {200, 409}
    assert found[409].startswith("2026-09 is not closed: there is nothing to reopen;")
    assert len(get(http)["reopenings"]) == 1


@pytest.mark.slow
def test_who_reopens_a_month_that_another_request_has_just_reviewed_again_is_told(server, http):
    closed(server, http)

    found = decide_at_once(http, ("reopen", {"reason": "a"}), ("review", {}))

    assert found[0] == (200, "")
    assert found[1][0] in {200, 409}
    assert found[1][0] == 200 or "is closed" in found[1][1]
    work(server)
    assert get(http)["status"] == ("IN_REVIEW" if found[1][0] == 200 else "STARTED")
