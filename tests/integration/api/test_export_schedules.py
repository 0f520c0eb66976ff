"""Schedules of exports over the API, with the SDK."""

from datetime import timedelta

import m3ter
import pytest

from meterlake.model.work.export_request import ExportRequest
from meterlake.pipeline.export.run import EXPORT_JOBS
from meterlake.pipeline.export.schedules import submit_due
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.homes import ACCOUNTS, EGRESS, configure
from tests.served import served

CLOCK = {"exportFileFormat": "JSONL", "scheduleType": "HOUR", "period": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("schedules") / "home"
    with served(home, prefect_url="") as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        yield found


@pytest.fixture
def exports(server):
    with server.sdk() as sdk:
        yield sdk.data_exports


def work(server):
    submit_due(server.organization)
    run_round(EXPORT_JOBS, Executor(server.settings), server.organization, lambda: False)


def make(exports, code, **more):
    return exports.schedules.create(
        source_type="OPERATIONAL",
        operational_data_types=["METERS"],
        extra_body={"name": code.title(), "code": code, **CLOCK, **more},
    )


def test_a_schedule_has_its_first_job_at_once_and_the_worker_runs_it(server, exports):
    made = make(exports, "meters")
    [job] = exports.jobs.list(schedule_id=made.id)
    assert (job.status, job.source_type) == ("PENDING", "OPERATIONAL")
    assert server.stores.state.jobs.get(job.id).due == job.date_created

    work(server)

    assert exports.jobs.retrieve(job.id).status == "SUCCEEDED"
    assert exports.jobs.get_download_url(job.id).url
    work(server)
    assert [each.id for each in exports.jobs.list(schedule_id=made.id)] == [job.id]


def test_a_schedule_of_usage_says_for_which_time_it_runs(server, exports):
    made = exports.schedules.create(
        source_type="USAGE",
        time_period="LAST_12_HOURS",
        extra_body={"name": "Usage", "code": "usage", **CLOCK},
    )
    [waits] = exports.jobs.list(schedule_id=made.id)

    job = server.stores.state.jobs.get(waits.id)

    period = ExportRequest.from_wire(job.parameters).period
    assert period.end == job.due.replace(minute=0, second=0, microsecond=0)
    assert period.end - period.start == timedelta(hours=12)


def test_a_disabled_schedule_has_no_job(server, exports):
    with server.http() as http:
        made = make(exports, "off", enabled=False)
        path = f"/dataexports/schedules/{made.id}"
        document = http.get(path).json()
        assert document["enabled"] is False
        assert [*exports.jobs.list(schedule_id=made.id)] == []
        assert http.put(path, json={**document, "enabled": "yes"}).status_code == 400
        document = http.put(path, json={**document, "enabled": True}).json()
        assert document["enabled"] is True
        work(server)
        assert [*exports.jobs.list(schedule_id=made.id)] == []


def test_a_client_that_does_not_know_of_it_leaves_a_schedule_disabled(server, exports):
    made = make(exports, "old", enabled=False)
    unsaid = {"name": "Renamed", "code": "old", "version": 1, **CLOCK}
    exports.schedules.update(
        id=made.id, source_type="OPERATIONAL", operational_data_types=["METERS"], extra_body=unsaid
    )
    with server.http() as http:
        now = http.get(f"/dataexports/schedules/{made.id}").json()
    assert (now["name"], now["enabled"]) == ("Renamed", False)


@pytest.mark.long
def test_lines_of_bills_are_exported_as_focus_with_types_or_alone(server, exports):
    focus = {"name": "Costs", "code": "costs", "focus": True, **CLOCK}
    made = exports.schedules.create(
        source_type="OPERATIONAL", operational_data_types=[], extra_body=focus
    )
    [job] = exports.jobs.list(schedule_id=made.id)
    found = exports.schedules.retrieve(made.id)
    assert (found.operational_data_types, found.to_dict()["focus"]) == ([], True)
    assert server.stores.state.jobs.get(job.id).parameters["types"] == ["focus"]

    # Clients that do not know of it send a schedule back without it.
    unsaid = {"name": "Costs", "code": "costs", "version": found.version, **CLOCK}
    exports.schedules.update(
        id=made.id, source_type="OPERATIONAL", operational_data_types=["BILLS"], extra_body=unsaid
    )
    work(server)
    found = exports.schedules.retrieve(made.id)
    assert (found.operational_data_types, found.to_dict()["focus"]) == (["BILLS"], True)
    adhoc = exports.create_adhoc(
        source_type="OPERATIONAL", operational_data_types=["BILLS"], extra_body={"focus": True}
    )
    assert server.stores.state.jobs.get(adhoc.job_id).parameters["types"] == ["bills", "focus"]
    with pytest.raises(m3ter.BadRequestError, match="operationalDataTypes is required"):
        exports.create_adhoc(source_type="OPERATIONAL", operational_data_types=[])
    with pytest.raises(
        m3ter.BadRequestError, match="focus: true is not allowed: it has no meaning where"
    ):
        exports.schedules.create(
            source_type="USAGE", time_period="TODAY", extra_body={**focus, "code": "usage-costs"}
        )


def test_a_schedule_that_is_refused_has_no_job(exports):
    make(exports, "twice")
    before = len([*exports.jobs.list()])
    with pytest.raises(m3ter.BadRequestError, match="period"):
        make(exports, "never", period=100)
    with pytest.raises(m3ter.ConflictError):
        make(exports, "twice")
    assert len([*exports.jobs.list()]) == before
