"""Schedules: every run has one job, whoever looks and however long nobody did."""

import threading
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.configuration.queries import TimePeriod, relative_period
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values import failpoint
from meterlake.model.values.period import parse_instant
from meterlake.model.work.export_request import KIND, ExportRequest, runs
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.export.control import list_schedules
from meterlake.pipeline.export.jobs import get_job
from meterlake.pipeline.export.run import EXPORT_JOBS, export
from meterlake.pipeline.export.schedules import submit_due, submit_now, whole_round
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.state import JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import EXPORTS, SCHEDULES
from tests.homes import HEADER, a_home, configure, csv_row, open_home, settings
from tests.organizations import Clock
from tests.postgres import missing, postgres
from tests.rounds import go_round

AUTHOR = "test"
METERS = {"sourceType": "OPERATIONAL", "operationalDataTypes": ["METERS"]}
USAGE = {"sourceType": "USAGE"}
HOURLY = {"scheduleType": "HOUR", "period": 1}


@contextmanager
def exporting(folder, **changes):
    """A home whose organization has exports switched on."""
    with a_home(folder, **changes) as home:
        switch(home, on=True)
        yield home


def switch(home, *, on):
    configure(home.organization, features={"preview": on})


def place(id=None):
    return ResourceRef(BY_ENTITY[ExportSchedule], {}, id)


def create(home, code="s", **fields):
    document = {"name": code.title(), "code": code, **METERS, **HOURLY, **fields}
    document = {name: value for name, value in document.items() if value is not None}
    return entities.create(home.organization, AUTHOR, place(), document)


def update(home, made, **fields):
    now = entities.retrieve(home.organization, place(made["id"]))
    document = {name: value for name, value in (now | fields).items() if value is not None}
    entities.update(home.organization, AUTHOR, place(made["id"]), document)


def jobs(home, made=None):
    filters = JobFilters(schedule_id=made and made["id"])
    found, _ = home.stores.state.jobs.page(home.org_id, KIND, filters, Page(500))
    return found[::-1]


def dues(home, made):
    return sorted(job.due for job in jobs(home, made))


def to_now(home):
    """The configuration of the home was made by the real clock; exports show it from then on."""
    home.clock.time = datetime.now(UTC).replace(hour=12)
    if home.clock.time < datetime.now(UTC):
        home.clock.advance(hours=12)
    return home.clock()


def look(home):
    return submit_due(home.organization)


@pytest.fixture
def home(tmp_path):
    with exporting(tmp_path) as made:
        yield made


def test_the_first_job_is_made_with_the_schedule(home):
    made = create(home)
    [job] = jobs(home, made)

    assert (job.due, job.created, job.status) == (home.clock(), home.clock(), JobStatus.PENDING)
    assert (job.schedule_id, job.author) == (made["id"], AUTHOR)
    assert look(home) == []


def test_a_schedule_that_is_refused_leaves_no_job(home):
    create(home)
    with pytest.raises(Exception, match="code"):
        create(home)
    assert len(jobs(home)) == 1


def test_a_schedule_of_a_configuration_file_has_its_first_job_at_the_next_look(home):
    fields = {"name": "S", "code": "s", **METERS, **HOURLY}
    configure(home.organization, exportSchedules=[fields])
    created = home.clock()
    home.clock.advance(minutes=1)

    look(home)

    assert [job.due for job in jobs(home)] == [created]


@pytest.mark.parametrize(("missed", "hours"), [("catch_up", [0, 3]), ("skip", [2, 4])])
def test_what_is_due_and_has_no_job_yet_runs_next(tmp_path, missed, hours):
    def shown():
        [found] = list_schedules(home.organization)
        return parse_instant(found["nextRun"])

    with exporting(tmp_path, export_missed=missed) as home:
        fields = {"name": "S", "code": "s", **METERS, **HOURLY}
        begin = home.clock()
        configure(home.organization, exportSchedules=[fields])
        assert shown() == begin
        home.clock.advance(hours=2, minutes=1)
        assert shown() == begin + timedelta(hours=hours[0])
        look(home)
        assert shown() == begin + timedelta(hours=3)

        home.clock.advance(hours=2)
        assert shown() == begin + timedelta(hours=hours[1])


def test_a_schedule_that_is_made_anew_under_its_id_has_a_first_job_too(home):
    fields = {"id": "meters", "name": "S", "code": "s", **METERS, **HOURLY}
    begin = home.clock()
    for _ in range(2):
        configure(home.organization, exportSchedules=[fields])
        look(home)
        home.clock.advance(hours=1)
        look(home)
        [made] = list_schedules(home.organization)
        home.clock.advance(minutes=1)
        entities.delete(home.organization, AUTHOR, place(made["id"]))
        home.clock.advance(minutes=1)

    again = begin + timedelta(hours=1, minutes=2)
    assert dues(home, made) == [
        *(begin + timedelta(hours=each) for each in (0, 1)),
        *(again + timedelta(hours=each) for each in (0, 1)),
    ]


def test_a_run_is_due_at_its_instant_and_not_before(home):
    made = create(home)
    home.clock.advance(minutes=59, seconds=59)
    assert look(home) == []
    home.clock.advance(seconds=1)
    [id_] = look(home)

    job = home.stores.state.jobs.get(id_)
    assert job.due == home.clock()
    assert get_job(home.organization, id_)["scheduleId"] == made["id"]
    assert look(home) == []


def test_missed_runs_are_made_up_for_each_once(home):
    made = create(home)
    home.clock.advance(hours=4, minutes=30)

    assert len(look(home)) == 4

    found = dues(home, made)
    assert {later - sooner for sooner, later in pairwise(found)} == {timedelta(hours=1)}
    assert found[-1] == home.clock() - timedelta(minutes=30)


def test_of_missed_runs_only_the_newest_is_made_up_for_if_the_setting_says_so(tmp_path):
    with exporting(tmp_path, export_missed="skip") as home:
        made = create(home)
        begin = home.clock()
        home.clock.advance(hours=4, minutes=30)
        assert len(look(home)) == 1
        assert look(home) == []
        home.clock.advance(minutes=30)
        look(home)

        assert dues(home, made) == [begin + timedelta(hours=each) for each in (0, 4, 5)]


def test_after_a_long_time_jobs_are_made_bit_by_bit(home):
    made = create(home, scheduleType="MINUTE", period=15)
    home.clock.advance(days=2)

    assert [len(look(home)) for _ in range(3)] == [100, 92, 0]
    assert len(set(dues(home, made))) == 193


def test_what_was_due_while_it_was_disabled_is_not_missed(home):
    made = create(home, enabled=False)
    home.clock.advance(hours=3)
    assert look(home) == jobs(home) == []

    update(home, made, enabled=True)
    home.clock.advance(minutes=30)
    assert look(home) == []
    home.clock.advance(hours=1)
    look(home)
    update(home, made, enabled=False)
    home.clock.advance(hours=5)
    look(home)
    update(home, made, enabled=True, name="New name")
    home.clock.advance(hours=2)
    update(home, made, name="Newer name")
    look(home)

    begin = home.clock() - timedelta(hours=11, minutes=30)
    assert dues(home, made) == [begin + timedelta(hours=each) for each in (4, 10, 11)]


def test_an_update_that_does_not_know_of_it_leaves_a_schedule_disabled(home):
    made = create(home, enabled=False)
    update(home, made, name="New name", enabled=None)
    home.clock.advance(hours=3)
    assert look(home) == jobs(home) == []
    assert entities.retrieve(home.organization, place(made["id"]))["enabled"] is False

    update(home, made, enabled=True)
    update(home, made, name="Newer name", enabled=None)
    home.clock.advance(hours=1)
    assert len(look(home)) == 1


@pytest.mark.parametrize(("missed", "hours"), [("catch_up", [0, 1, 2, 3]), ("skip", [0, 3])])
def test_while_exports_are_switched_off_nothing_is_made_and_then_it_was_missed(
    tmp_path, missed, hours
):
    with exporting(tmp_path, export_missed=missed) as home:
        made = create(home)
        begin = home.clock()
        switch(home, on=False)
        home.clock.advance(hours=3)
        assert look(home) == []
        [shown] = list_schedules(home.organization)
        assert shown["nextRun"] is None

        switch(home, on=True)
        look(home)

        assert dues(home, made) == [begin + timedelta(hours=each) for each in hours]


def test_a_schedule_that_is_made_while_exports_are_off_waits_for_its_first_job(home):
    switch(home, on=False)
    made = create(home)
    begin = home.clock()
    assert jobs(home, made) == []
    home.clock.advance(minutes=1)
    switch(home, on=True)
    look(home)

    assert dues(home, made) == [begin]


def test_while_exports_are_switched_off_what_waits_stays_and_what_has_begun_is_finished(
    tmp_path, monkeypatch
):
    with exporting(tmp_path, prefect_url="") as home:
        to_now(home)
        for code in "ab":
            create(home, code)

        def off(reached):
            if reached == "export.file_staged":
                switch(home, on=False)

        monkeypatch.setattr(failpoint, "hook", off)
        work = EXPORT_JOBS, Executor(home.stores.settings), home.organization, lambda: False
        run_round(*work)
        assert whole_round(home.organization) == (0, [])
        monkeypatch.setattr(failpoint, "hook", None)

        assert {job.status for job in jobs(home)} == {JobStatus.COMPLETE, JobStatus.PENDING}
        switch(home, on=True)
        run_round(*work)
        assert {job.status for job in jobs(home)} == {JobStatus.COMPLETE}


def test_a_new_clock_makes_up_for_nothing_of_the_time_before_it(home):
    made = create(home, scheduleType="DAY", period=1)
    begin = home.clock()
    home.clock.advance(hours=10)
    update(home, made, scheduleType="MINUTE", period=15)
    home.clock.advance(minutes=20)

    look(home)

    assert dues(home, made) == [begin, begin + timedelta(hours=10, minutes=15)]


def test_a_deleted_schedule_is_not_due_any_more(home):
    made = create(home)
    entities.delete(home.organization, AUTHOR, place(made["id"]))
    home.clock.advance(hours=3)

    assert look(home) == []
    with pytest.raises(NotFound):
        submit_now(home.organization, made["id"], AUTHOR)


def test_a_schedule_is_run_by_hand_beside_its_clock(home):
    made = create(home, enabled=False)
    one = submit_now(home.organization, made["id"], AUTHOR)
    two = submit_now(home.organization, made["id"], AUTHOR)

    assert {job.id for job in jobs(home, made)} == {one, two}
    assert {job.due for job in jobs(home, made)} == {None}


@pytest.mark.long
def test_a_run_exports_the_time_before_the_instant_at_which_it_was_due(home):
    for period in TimePeriod:
        create(home, period, **USAGE, operationalDataTypes=None, timePeriod=period)
    home.clock.advance(hours=26, minutes=10)
    look(home)

    found = {}
    for made in entities.list_page(home.organization, BY_ENTITY[ExportSchedule], [], Page(100))[
        "data"
    ]:
        for job in jobs(home, made):
            period = TimePeriod(made["timePeriod"])
            found.setdefault(period, set()).add(job.due)
            asked = ExportRequest.from_wire(job.parameters)
            assert asked.period == relative_period(period, job.due)
    assert [len(found[period]) for period in TimePeriod] == [27] * len(TimePeriod)


def all_look(homes):
    """Several processes look at the same moment, each with stores of its own."""
    made = create(homes[0])
    homes[0].clock.advance(hours=20)
    barrier = threading.Barrier(len(homes))
    failures = []

    def together(home):
        barrier.wait()
        try:
            look(home)
        except Exception as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=together, args=(each,)) for each in homes]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert failures == []
    begin = homes[0].clock() - timedelta(hours=20)
    assert dues(homes[0], made) == [begin + timedelta(hours=each) for each in range(21)]


def opened(stack, path, org_id, clock, **changes):
    return [stack.enter_context(open_home(path, org_id, clock, **changes)) for _ in range(4)]


def test_several_who_look_at_a_time_make_every_job_once(home):
    with ExitStack() as stack:
        all_look(opened(stack, home.stores.home, home.org_id, home.clock))


@pytest.mark.slow
def test_several_who_look_at_a_time_make_every_job_once_in_postgresql(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    path = tmp_path / "home"
    with ExitStack() as stack:
        url = stack.enter_context(postgres())
        made = initialize(settings(path, state=url), "Sample")
        homes = opened(stack, path, made.org_id, Clock(), state=url)
        switch(homes[0], on=True)
        all_look(homes)


@pytest.mark.long
def test_the_worker_runs_what_is_due_and_what_was_asked_for(tmp_path):
    with exporting(tmp_path, prefect_url="") as home:
        yesterday = to_now(home) - timedelta(days=1)
        home.ingest("a.csv", HEADER + csv_row("u1", ts=yesterday.isoformat()))
        for code, fields in (
            ("m", {}),
            ("u", {**USAGE, "timePeriod": "YESTERDAY", "operationalDataTypes": None}),
        ):
            create(home, code, **fields)
        home.clock.advance(hours=1)

        go_round(SCHEDULES, home.stores, lambda: len(jobs(home)) == 4, 0.0)
        assert {job.status for job in jobs(home)} == {JobStatus.PENDING}
        go_round(EXPORTS, home.stores, lambda: all(job.finished for job in jobs(home)), 0.0)

        assert {job.status for job in jobs(home)} == {JobStatus.COMPLETE}
        assert sorted(job.result["rows"] for job in jobs(home)) == [1, 1, 2, 2]


def test_an_export_that_takes_long_keeps_no_schedule_from_being_due(tmp_path, monkeypatch):
    with (
        exporting(tmp_path, prefect_url="", export_missed="skip") as home,
        open_home(home.stores.home, home.org_id, home.clock, prefect_url="") as other,
    ):
        to_now(home)
        made = create(home)
        begin, busy, go_on = home.clock(), threading.Event(), threading.Event()

        def pause(reached):
            if reached == "export.file_staged":
                busy.set()
                go_on.wait(60)

        monkeypatch.setattr(failpoint, "hook", pause)
        worker = threading.Thread(target=go_round, args=(EXPORTS, other.stores, go_on.is_set, 0.0))
        worker.start()
        try:
            assert busy.wait(60)
            for hour in (1, 2):
                home.clock.advance(hours=1)
                wanted = hour + 1
                go_round(SCHEDULES, home.stores, lambda n=wanted: len(jobs(home)) == n, 0.0)
        finally:
            go_on.set()
            worker.join()

        assert [job.created for job in jobs(home, made)] == dues(home, made)
        assert dues(home, made) == [begin + timedelta(hours=each) for each in (0, 1, 2)]


def test_an_error_that_nobody_foresaw_ends_the_job_and_nothing_else(tmp_path, monkeypatch, caplog):
    with exporting(tmp_path, prefect_url="") as home:
        to_now(home)
        for code in "abc":
            create(home, code)
        left = [True]

        def broken(reached):
            if reached == "export.file_staged" and left:
                left.clear()
                raise ZeroDivisionError("nobody foresaw it")

        monkeypatch.setattr(failpoint, "hook", broken)
        go_round(EXPORTS, home.stores, lambda: all(job.finished for job in jobs(home)), 0.0)

        [failed] = [job for job in jobs(home) if job.status is JobStatus.FAILED]
        assert [job.status for job in jobs(home)].count(JobStatus.COMPLETE) == 2
        assert "nobody foresaw it" in failed.error
        assert "Traceback" in caplog.text


def test_a_job_that_fails_does_not_keep_the_others_waiting(tmp_path, caplog):
    with exporting(tmp_path, prefect_url="") as home:
        bad, good = create(home, "bad"), create(home, "good")
        (home.stores.home / "staging" / "exports").mkdir(parents=True, exist_ok=True)
        folder = home.stores.home / "staging" / "exports" / jobs(home, bad)[0].id
        folder.write_text("in the way")

        executor = Executor(home.stores.settings)
        run_round(EXPORT_JOBS, executor, home.organization, lambda: False)

        assert jobs(home, bad)[0].status is not JobStatus.COMPLETE
        assert jobs(home, good)[0].status is JobStatus.COMPLETE
        assert jobs(home, bad)[0].id in caplog.text


@pytest.mark.long
def test_who_exports_while_a_worker_runs_gets_the_result_all_the_same(tmp_path):
    with (
        exporting(tmp_path, prefect_url="") as home,
        open_home(home.stores.home, home.org_id, home.clock, prefect_url="") as other,
    ):
        to_now(home)
        over = threading.Event()
        worker = threading.Thread(target=go_round, args=(EXPORTS, other.stores, over.is_set, 0.0))
        worker.start()
        try:
            request = ExportRequest.from_wire(
                {"source": "operational", "format": "jsonl", "types": ["meters"]}
            )
            done = [export(home.organization, request) for _ in range(5)]
        finally:
            over.set()
            worker.join()

        assert [each.rows for each in done] == [2] * 5


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["look", "look", "look", "disable", "enable", "rename"]),
        st.integers(0, 5 * 3600),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def lasting(every_lake, tmp_path_factory):  # noqa: ARG001
    with exporting(tmp_path_factory.mktemp("schedules")) as made:
        yield made


@pytest.mark.long
@tried(max_examples=20)
@given(steps=STEPS, missed=st.sampled_from(["catch_up", "skip"]), minutes=st.integers(15, 300))
def test_no_run_is_doubled_or_invented(lasting, steps, missed, minutes):
    home = lasting
    home.stores.settings = settings(home.stores.home, export_missed=missed)
    made = create(home, f"s{home.clock().timestamp()}", scheduleType="MINUTE", period=minutes)
    created, expected, enabled = home.clock(), [home.clock()], True
    # What could have been made, and was not yet: since the last look, while it was enabled.
    since = created
    schedule = ExportSchedule.from_wire(
        {"name": "n", "code": "c", **METERS, "scheduleType": "MINUTE", "period": minutes}
    )
    for step, seconds in [*steps, ("look", 0)]:
        home.clock.advance(seconds=seconds)
        if step == "look" and enabled:
            look(home)
            found = list(runs(schedule, created, since, home.clock()))
            expected += found[-1:] if missed == "skip" else found
            since = home.clock()
        elif step == "rename":
            update(home, made, name=f"{seconds}")
        elif step in {"disable", "enable"}:
            update(home, made, enabled=step == "enable")
            if not (enabled and step == "enable"):
                since = home.clock()
            enabled = step == "enable"

    assert dues(home, made) == expected
    home.clock.advance(seconds=1)
    entities.delete(home.organization, AUTHOR, place(made["id"]))
