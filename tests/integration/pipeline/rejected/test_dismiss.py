"""Rejected rows that somebody gave up: counted nowhere, requeued only by name, reopened at will."""

import json

import pytest

from meterlake.model.bills.unbilled import ReviewKind
from meterlake.model.errors import Invalid, NotFound, Required
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.pipeline.closing.bill_review import review_bills
from meterlake.pipeline.home.status import status
from meterlake.pipeline.ingest.rejected_rows import list_rejected, show_rejected
from meterlake.pipeline.rejected.rejected_files import Edit
from meterlake.pipeline.rejected.requeue import RowChoice, dismiss, reopen, requeue, requeue_edited
from meterlake.stores.lake.rejected import RejectedFilter
from tests.homes import HEADER, a_home, csv_row, wire_row

DATA = HEADER + csv_row("u1") + csv_row("u2", "x") + csv_row("u3", meter="later")


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as found:
        found.ingest("a.csv", DATA)
        yield found


def ids(home, status=None, **filters):
    rows = list_rejected(home.organization, RejectedFilter(status=status, **filters), 100)
    return [str(row.place) for row in rows]


def give_up(home, *ids, because="a trial", author="ann", **filters):
    choice = RowChoice(ids, RejectedFilter(**filters))
    return dismiss(home.organization, choice, because, author)


def take_up(home, *ids, author="bob", **filters):
    return reopen(home.organization, RowChoice(ids, RejectedFilter(**filters)), author)


def waiting(home):
    organization = home.stores.find_organization(home.org_id)
    reviewed = review_bills(home.organization, Month(2026, 9))
    rows = [each.subject for each in reviewed if each.kind is ReviewKind.REJECTED_ROWS]
    return status(organization).rejected, rows


# -- what must not happen ----------------------------------------------------------------------


@pytest.mark.parametrize("because", ["", " \n", "x" * 1001])
def test_a_reason_is_needed(home, because):
    with pytest.raises((Required, Invalid), match="because"):
        give_up(home, source="a.csv", because=because)
    assert len(ids(home, "open")) == 2


@pytest.mark.long
def test_it_must_say_which_rows(home):
    with pytest.raises(Required, match="ids, or a filter"):
        give_up(home)
    with pytest.raises(Invalid, match="without a filter"):
        give_up(home, ids(home)[0], source="a.csv")
    first, second = ids(home)
    for strange, error in (
        ("x", Invalid),
        ("0" * 12 + ":2", NotFound),
        (first[:-1] + "2", Invalid),
    ):
        with pytest.raises(error):
            give_up(home, second, strange)
    assert len(ids(home, "open")) == 2


@pytest.mark.long
def test_one_that_dies_leaves_all_rows_open(home, monkeypatch):
    def hook(name):
        if name == "lake.before_commit":
            raise RuntimeError(name)

    monkeypatch.setattr(failpoint, "hook", hook)
    with pytest.raises(RuntimeError):
        give_up(home, source="a.csv")
    monkeypatch.setattr(failpoint, "hook", None)
    assert len(ids(home, "open")) == 2
    assert give_up(home, source="a.csv").rows == 2


# -- what happens ------------------------------------------------------------------------------


@pytest.mark.long
def test_dismissed_rows_wait_for_nobody_until_they_are_reopened(home):
    before = waiting(home)
    assert before[0] == {"InvalidNumber": 1, "UndefinedMeter": 1}
    wrong, later = ids(home)

    assert give_up(home, reason="InvalidNumber", because=" a trial ").rows == 1

    assert waiting(home) == ({"UndefinedMeter": 1}, ["UndefinedMeter"])
    assert (ids(home, "dismissed"), ids(home, "open")) == ([wrong], [later])
    shown = show_rejected(home.organization, wrong)
    told = (shown["status"], shown["because"], shown["dismissedBy"], shown["dismissedAt"])
    assert told == ("dismissed", "a trial", "ann", home.clock())
    again = give_up(home, wrong, later, because="once more", author="eve")
    assert (again.rows, again.settled) == (1, 1)
    assert show_rejected(home.organization, wrong)["dismissedBy"] == "ann"
    assert waiting(home) == ({}, [])
    home.clock.advance(days=1)
    assert take_up(home, wrong).rows == take_up(home, source="a.csv").rows == 1
    assert take_up(home, wrong).settled == 1
    assert waiting(home) == before
    shown = show_rejected(home.organization, wrong)
    assert [(each["action"], each["author"], each["because"]) for each in shown["decisions"]] == [
        ("dismiss", "ann", "a trial"),
        ("reopen", "bob", None),
    ]
    assert (shown["because"], shown["dismissedBy"], shown["dismissedAt"]) == (None, None, None)


@pytest.mark.long
def test_a_dismissed_row_is_requeued_only_by_name(home):
    wrong, _ = ids(home)
    give_up(home, wrong)
    assert requeue(home.organization, RejectedFilter(reason="InvalidNumber")).receipts == []

    def name(**changes):
        edit = Edit(wrong, json.dumps(wire_row("u2", 5, **changes)), "here")
        return requeue_edited(home.organization, [edit]).to_wire()

    assert name(meter="nothing")["rejected"] == 1
    # Somebody has tried: it waits for the next one.
    assert wrong in ids(home, "open")
    give_up(home, wrong)
    assert name()["accepted"] == 1
    assert ids(home, "requeued") == [wrong]
    assert take_up(home, wrong).settled == 1
    home.check()


@pytest.mark.long
def test_a_file_that_is_delivered_again_changes_nothing(home):
    give_up(home, source="a.csv")
    home.ingest("again.csv", DATA)
    assert len(ids(home, "dismissed")) == 2
