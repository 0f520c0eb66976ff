"""Alerts are raised once for each incident, and are over when all is as it should be again."""

import pytest

from meterlake.model.resources.events import (
    FRESHNESS_ALERT,
    OVERDUE_FILE_ALERT,
    REJECT_RATE_ALERT,
    fields_of,
)
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.events.incidents import resolve
from meterlake.pipeline.home.alerts import LakeWatch, check_alerts
from meterlake.stores.state.core.pages import Page
from tests.homes import CALLS, EGRESS, HEADER, a_home, configure, csv_row
from tests.long_cases import long_after


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path, alert_reject_least=4, alert_reject_rate=0.25) as opened:
        yield opened


def listed(home, name, *, actioned=False):
    filters = EventFilters(event_name=name, include_actioned=actioned)
    return list_events(home.organization, filters, Page(100, None))["data"]


def told(home, name):
    return [each["m3terEvent"]["eventData"]["newDto"] for each in listed(home, name)]


def check(home):
    return [(each.name, each.subject) for each in check_alerts(home.organization)]


def wait(home, **time):
    home.clock.advance(**time)


def rows(good, bad, start=0):
    uids = range(start, start + good + bad)
    return HEADER + "".join(csv_row(f"u{n}", 1 if n < start + good else "x") for n in uids)


def test_a_meter_that_never_got_anything_is_no_incident(home):
    wait(home, days=400)

    assert check(home) == []


@pytest.mark.long
@pytest.mark.happens("ingest.freshness.alert")
def test_a_meter_that_gets_nothing_any_more_is_one_incident_until_it_does(home):
    home.ingest("a.csv", rows(1, 0))
    wait(home, hours=23, minutes=59)
    assert check(home) == []
    wait(home, minutes=2)

    first = check_alerts(home.organization)
    wait(home, hours=5)
    again = check_alerts(home.organization)

    assert first == again
    [event] = told(home, FRESHNESS_ALERT)
    assert (event["meterCode"], event["hours"]) == ("egress", 24)
    assert {f"new.{name}" for name in event} == set(fields_of(FRESHNESS_ALERT))

    home.ingest("b.csv", rows(1, 0, 10))
    assert check(home) == []
    assert listed(home, FRESHNESS_ALERT) == []
    assert len(listed(home, FRESHNESS_ALERT, actioned=True)) == 1
    wait(home, hours=25)
    assert len(check(home)) == 1
    assert len(listed(home, FRESHNESS_ALERT, actioned=True)) == 2


@pytest.mark.parametrize(
    ("meter", "every", "hours", "stale"),
    long_after(
        3,
        [
            (6, 24, 7, True),
            ("0", 1, 500, False),
            (None, 48, 30, False),
            (12, 48, 30, True),
            ("soon", 24, 25, True),
        ],
    ),
)
def test_custom_fields_of_meter_and_organization_replace_the_setting(
    home, meter, every, hours, stale
):
    own = {"customFields": {"freshnessHours": meter}} if meter is not None else {}
    more = {"customFields": {"meter": {"freshnessHours": every}}} if every is not None else {}
    configure(home.organization, meters=[EGRESS | own, CALLS], **more)
    home.ingest("a.csv", rows(1, 0))
    wait(home, hours=hours)

    assert bool(check(home)) == stale


def test_freshness_can_be_switched_off(tmp_path):
    with a_home(tmp_path, alert_freshness_hours=0) as home:
        home.ingest("a.csv", rows(1, 0))
        wait(home, days=100)
        assert check(home) == []


@pytest.mark.long
@pytest.mark.happens("ingest.rejectrate.alert")
def test_too_many_rejected_rows_are_one_incident_until_they_are_few_again(home):
    home.ingest("few.csv", rows(0, 3))
    assert check(home) == []  # Too few to say anything.
    home.ingest("more.csv", rows(9, 0, 10))
    assert check(home) == []  # The limit itself: 3 of 12.
    home.ingest("bad.csv", rows(0, 1, 30))
    assert check(home) == check(home) == [(REJECT_RATE_ALERT, home.org_id)]

    [event] = told(home, REJECT_RATE_ALERT)
    assert (event["received"], event["rejected"]) == (13, 4)
    assert {f"new.{name}" for name in event} == set(fields_of(REJECT_RATE_ALERT))
    home.ingest("good.csv", rows(20, 0, 50))
    assert check(home) == []
    assert listed(home, REJECT_RATE_ALERT) == []


def test_what_was_rejected_long_ago_does_not_count(home):
    home.ingest("bad.csv", rows(0, 9))
    wait(home, hours=25)

    assert check(home) == []


@pytest.mark.long
def test_the_organization_can_have_a_limit_of_its_own(home):
    configure(home.organization, customFields={"organization": {"rejectRate": "0.9"}})
    home.ingest("bad.csv", rows(2, 8))

    assert check(home) == []


def test_two_who_look_at_once_tell_it_once(home):
    found = {(REJECT_RATE_ALERT, home.org_id): {"message": "many"}}

    for _ in range(2):
        resolve(home.organization, (REJECT_RATE_ALERT,), found)
        resolve(home.organization, (FRESHNESS_ALERT,), {})

    assert len(listed(home, REJECT_RATE_ALERT, actioned=True)) == 1


@pytest.mark.happens("ingest.overduefile.alert")
def test_a_file_that_is_overdue_is_told_of_once_for_its_day_until_it_comes(home):
    today = home.clock.time.date()
    file = {"name": "Gateway", "pattern": "gate-{date}.csv", "since": today.isoformat()}
    configure(
        home.organization, organizationConfig={"daysBeforeBillDue": 14, "expectedFiles": [file]}
    )
    wait(home, days=1)
    assert check(home) == []
    wait(home, days=1)

    first = check_alerts(home.organization)
    wait(home, hours=1)
    again = check_alerts(home.organization)

    assert [each.name for each in first] == [OVERDUE_FILE_ALERT]
    assert first == again
    [event] = told(home, OVERDUE_FILE_ALERT)
    assert (event["name"], event["period"]) == ("Gateway", today.isoformat())
    assert {f"new.{name}" for name in event} == set(fields_of(OVERDUE_FILE_ALERT))

    wait(home, days=1)
    assert len(check(home)) == 2
    home.ingest(f"gate-{today}.csv", rows(1, 0))
    assert len(check(home)) == 1
    assert len(listed(home, OVERDUE_FILE_ALERT)) == 1
    assert len(listed(home, OVERDUE_FILE_ALERT, actioned=True)) == 2


def test_a_lake_is_looked_at_when_an_expected_file_falls_due(home):
    today = home.clock.time.date()
    file = {"name": "Gateway", "pattern": "gate-{date}.csv", "since": today.isoformat()}
    watch = LakeWatch(home.stores)
    watch.look(home.org_id)
    configure(
        home.organization, organizationConfig={"daysBeforeBillDue": 14, "expectedFiles": [file]}
    )
    assert watch.due() == [home.org_id]
    watch.look(home.org_id)
    wait(home, hours=1)
    assert watch.due() == []
    wait(home, days=2)

    assert watch.due() == [home.org_id]
    watch.look(home.org_id)
    assert len(told(home, OVERDUE_FILE_ALERT)) == 1
