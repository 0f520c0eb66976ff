"""Runs of integrations: each is written once by its key, found again and listed in pages."""

from dataclasses import replace
from datetime import timedelta

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.errors import NotFound
from meterlake.stores.state import JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.runs import (
    NewRuns,
    RunContent,
    RunFilters,
    find_run,
    page_of_runs,
)

BILL = RunContent(
    entity_type="Bill",
    entity_id="bill",
    destination="STRIPE",
    run_key="config bill 1",
    config_id="config",
    config_version=3,
    account_id="account",
)
NOTIFICATION = RunContent(
    entity_type="Notification",
    entity_id="rule",
    destination="WEBHOOK",
    destination_id="webhook",
    run_key="config event",
    event_id="event",
    rule_version=2,
    body='{"type": "billing.bill.created"}',
)


def add(state, org, *contents, minutes=0):
    with state.transaction(org, "tester") as transaction:
        now = transaction.now + timedelta(minutes=minutes)
        new = NewRuns(transaction.connection, org, now, transaction.new_id)
        return new.add(contents)


def test_a_run_waits_for_its_first_try_with_all_that_it_is_about(state, org):
    [id_] = add(state, org, NOTIFICATION)

    with state.reading(org) as reader:
        found = find_run(reader.connection, org, id_)
    assert found.content == NOTIFICATION
    assert (found.status, found.job.status) == (RunStatus.WAITING, JobStatus.PENDING)
    assert (found.external_id, found.url, found.created) == (None, None, found.job.created)


def test_what_is_handed_over_twice_has_one_run(state, org):
    [first] = add(state, org, BILL, BILL)

    assert add(state, org, replace(BILL, config_version=4)) == []
    [second] = add(state, org, BILL, replace(BILL, run_key="config bill 2"))

    with state.reading(org) as reader:
        found, _ = page_of_runs(reader.connection, org, RunFilters(), Page(10))
        assert {each.id for each in found} == {first, second}


def test_a_run_that_there_is_not_is_not_found(state, org):
    [id_] = add(state, org, BILL)
    with state.reading(org) as reader:
        with pytest.raises(NotFound, match="nothing"):
            find_run(reader.connection, org, "nothing")
        with pytest.raises(NotFound, match=id_):
            find_run(reader.connection, "another", id_)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (RunFilters(), ["c", "b", "a"]),
        (RunFilters(entity_type="Bill"), ["b", "a"]),
        (RunFilters(entity_type="Bill", entity_ids=("bill2",)), ["b"]),
        (RunFilters(destination_id="webhook"), ["c"]),
        (RunFilters(config_id="config"), ["b", "a"]),
        (RunFilters(statuses=(RunStatus.COMPLETE,)), []),
        (RunFilters(statuses=(RunStatus.WAITING,)), ["c", "b", "a"]),
    ],
)
def test_lists_show_the_newest_first_in_pages(state, org, filters, found):
    made = {}
    for minute, name, content in (
        (0, "a", BILL),
        (1, "b", replace(BILL, run_key="config bill2 1", entity_id="bill2")),
        (2, "c", NOTIFICATION),
    ):
        [made[name]] = add(state, org, content, minutes=minute)
    ids, token = [], None
    with state.reading(org) as reader:
        while True:
            page = Page(1, token)
            some, token = page_of_runs(reader.connection, org, filters, page)
            ids += [each.id for each in some]
            if token is None:
                break
    assert ids == [made[name] for name in found]


def test_times_are_after_the_start_and_not_after_the_end(state, org):
    [first] = add(state, org, BILL)
    [second] = add(state, org, NOTIFICATION, minutes=5)
    with state.reading(org) as reader:
        one, two = (find_run(reader.connection, org, each).created for each in (first, second))

        def ids(**bounds):
            found, _ = page_of_runs(reader.connection, org, RunFilters(**bounds), Page(10))
            return [each.id for each in found]

        assert ids(after=one) == [second]
        assert ids(until=one) == [first]
        assert ids(until=two) == [second, first]
