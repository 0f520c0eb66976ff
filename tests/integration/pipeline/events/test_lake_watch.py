"""Lakes are looked at for alerts when there is something to see, and in time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import insert

from meterlake.model.catalog.catalog import Meter
from meterlake.model.resources.events import FRESHNESS_ALERT, REJECT_RATE_ALERT
from meterlake.pipeline.home.alerts import _NEW_MAX, LOOK_AGAIN, LakeWatch, _limits
from meterlake.stores.state.core.tables import ORGANIZATION
from meterlake.stores.state.events import incidents
from meterlake.stores.state.events.incidents import LakeLook, newest_looks, note_look
from meterlake.worker.rounds import ALERTS
from tests.homes import EGRESS, HEADER, a_home, configure, csv_row
from tests.rounds import go_round

# What operations.md says of one organization: a round, and the pause after the look before.
IN_TIME = timedelta(minutes=10)


@pytest.fixture
def home(tmp_path, lake_location):  # noqa: ARG001
    with a_home(tmp_path, alert_reject_least=4, alert_reject_rate=0.25) as opened:
        yield opened


@pytest.fixture
def watch(home):
    """Somebody who has looked once."""
    found = LakeWatch(home.stores)
    assert found.due() == [home.org_id]
    home.clock.advance(seconds=1)
    found.look(home.org_id)
    assert found.due() == []
    return found


def alerts(home):
    with home.organization.reading() as reader:
        return [each.name for each in incidents.open_incidents(reader)]


def again(home, watch):
    """Whether the lake is due once its pause is over; it is looked at then."""
    home.clock.advance(seconds=LOOK_AGAIN.total_seconds())
    due = watch.due()
    assert LakeWatch(home.stores).due() == due, "another worker sees something else"
    for org_id in due:
        watch.look(org_id)
    return due == [home.org_id]


@pytest.mark.long
def test_a_lake_is_looked_at_once_after_something_came_in(home, watch):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    assert watch.due() == [], "it has a pause"
    assert again(home, watch)
    assert not again(home, watch)

    home.ingest("b.csv", HEADER + csv_row("u2"))
    assert again(home, watch)
    assert not again(home, watch)


def test_an_alert_comes_in_time_although_nothing_comes_in(home, watch):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    came = home.clock()
    assert again(home, watch)
    home.clock.advance(hours=23, minutes=54)
    assert watch.due() == []

    while alerts(home) == []:
        home.clock.advance(minutes=1)
        for org_id in watch.due():
            watch.look(org_id)

    assert alerts(home) == [FRESHNESS_ALERT]
    assert timedelta(hours=24) <= home.clock() - came <= timedelta(hours=24) + IN_TIME
    # It stays, and costs nothing, until something comes in.
    home.clock.advance(days=100)
    assert watch.due() == []
    home.ingest("b.csv", HEADER + csv_row("u2"))
    assert watch.due() == [home.org_id]
    watch.look(home.org_id)
    assert alerts(home) == []


@pytest.mark.long
def test_rejected_rows_are_told_of_and_forgotten_in_time(home, watch):
    bad = "".join(csv_row(f"b{number}", "x") for number in range(4))
    home.ingest("a.csv", HEADER + csv_row("u1") + bad)
    assert again(home, watch)
    assert alerts(home) == [REJECT_RATE_ALERT]
    hours = home.stores.settings.alert_reject_hours

    home.clock.advance(hours=hours)

    assert watch.due() == [home.org_id]
    watch.look(home.org_id)
    assert REJECT_RATE_ALERT not in alerts(home)


@pytest.mark.long
def test_other_limits_are_looked_for_at_once(home, watch):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    assert again(home, watch)
    home.clock.advance(hours=2)
    assert watch.due() == []

    meter = {**EGRESS, "customFields": {"freshnessHours": 1}}
    own = {"meter": {"freshnessHours": "NUMBER"}}
    configure(home.organization, customFields=own, meters=[meter])

    assert watch.due() == [home.org_id]
    home.clock.advance(seconds=1)
    watch.look(home.org_id)
    assert alerts(home) == [FRESHNESS_ALERT]
    stricter = home.stores.settings.model_copy(update={"alert_reject_hours": 1.0})
    home.clock.advance(seconds=LOOK_AGAIN.total_seconds())
    home.stores.settings = stricter
    assert LakeWatch(home.stores).due() == [home.org_id]


@pytest.mark.long
def test_of_many_organizations_only_the_one_that_is_due_is_named(home, watch):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    assert again(home, watch)
    now = home.clock()
    rows = [
        {"id": f"org-{number:04}", "code": f"code-{number}", "name": "N", "created": now}
        for number in range(1000)
    ]
    look = LakeLook(now, now + timedelta(days=3), "", _limits(home.stores), "0 None")
    with home.stores.state.writing_home() as connection:
        connection.execute(insert(ORGANIZATION), rows)
    assert len(watch.due()) == _NEW_MAX, "after an update not all are looked at at once"
    with home.stores.state.writing_home() as connection:
        for row in rows:
            note_look(connection, row["id"], look)
    assert watch.due() == []

    home.clock.advance(hours=24)

    assert watch.due() == [home.org_id]


def test_the_worker_looks(home):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    home.clock.advance(hours=25)

    go_round(ALERTS, home.stores, lambda: bool(alerts(home)))

    assert alerts(home) == [FRESHNESS_ALERT]


@pytest.mark.usefixtures("home_database")
def test_two_workers_that_look_at_once_both_write_it_down(tmp_path):
    with a_home(tmp_path) as home:
        looks = [
            LakeLook(home.clock() + timedelta(hours=hour), None, "", "", "0 None")
            for hour in range(8)
        ]
        together = Barrier(len(looks))

        def write(look):
            together.wait()
            with home.stores.state.writing_home() as connection:
                note_look(connection, home.org_id, look)

        with ThreadPoolExecutor(len(looks)) as pool:
            list(pool.map(write, looks))
        with home.stores.state.reading_home() as connection:
            [(_, found, _)] = newest_looks(connection, Meter, org_id=home.org_id)
        assert found in looks
