"""Flows of exports: one organization, one job, one schedule, and all that is due."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from meterlake.cli.export.changes import create_schedule
from meterlake.cli.export.documents import ScheduleDefinition
from meterlake.model.errors import Busy, Unavailable
from meterlake.model.values import failpoint
from meterlake.model.work.export_request import KIND, ExportRequest, Format, Source
from meterlake.pipeline.export.control import delete_schedule, enable_schedule
from meterlake.pipeline.export.run import describe_export, run_export, submit_export
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from meterlake.stores.state import Job
from tests.integration.flows.test_flows import artifact, ended, run_of

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]

HOURLY = ScheduleDefinition(
    code="meters", name="All meters", source="operational", every="hour", types=("meters",)
)


def stores_of(home: Path) -> Any:
    return open_stores(Settings(home=home, _env_file=None))


def org_id(stores: Stores, code: str = "acme") -> str:
    return stores.state.organization(code).id


def jobs(stores: Stores, code: str = "acme") -> list[Job]:
    return stores.state.jobs.recent(org_id(stores, code), KIND)


@pytest.mark.long
def test_a_job_is_run_and_its_manifest_is_shown(home: Path, tmp_path: Path) -> None:
    from flows.export import export_job

    request = ExportRequest(
        source=Source.OPERATIONAL, format=Format.JSONL, types=("meters",), to=str(tmp_path / "out")
    )
    with stores_of(home) as stores:
        job = submit_export(stores.organization(org_id(stores)), request)

    [row] = export_job(home=home, org="acme", job=job, name="one")
    [again] = export_job(home=home, org="acme", job=job)

    [manifest] = tmp_path.rglob("*_manifest.json")
    assert (row["job"], row["rows"], again["rows"]) == (job, 1, 1)
    assert json.loads(manifest.read_text())["jobId"] == job
    _, _, [shown] = artifact("export")
    assert shown["manifest"] == str(manifest)


def test_a_job_that_somebody_else_runs_fails_the_run_only(home: Path) -> None:
    from flows.export import export_job

    with stores_of(home) as stores:
        job = submit_export(
            stores.organization(org_id(stores)), ExportRequest(source=Source.OPERATIONAL)
        )
        stores.state.jobs.take(job, 1)

    with pytest.raises(Busy):
        export_job(home=home, org="acme", job=job)


@pytest.mark.long
def test_what_is_due_is_run_for_every_organization(home: Path) -> None:
    from flows.export import export_due

    with stores_of(home) as stores:
        for code in ("acme", "bolt"):
            create_schedule(stores.organization(org_id(stores, code)), "test", HOURLY)

    first, second = export_due(home=home), export_due(home=home)

    # Their first jobs were made with them.
    assert [(row["due"], row["exports"]) for row in first] == [(0, 1), (0, 1)]
    assert [(row["due"], row["exports"]) for row in second] == [(0, 0), (0, 0)]
    with stores_of(home) as stores:
        assert [job.status for job in jobs(stores)] == ["COMPLETE"]


def test_the_files_of_what_was_due_are_told_and_their_manifests_shown(
    home: Path, tmp_path: Path
) -> None:
    from flows.export import export_due

    request = ExportRequest(
        source=Source.OPERATIONAL, format=Format.JSONL, types=("meters",), to=str(tmp_path / "out")
    )
    with stores_of(home) as stores:
        submit_export(stores.organization(org_id(stores)), request)

    export_due(home=home, org=("acme",))

    [manifest] = tmp_path.rglob("*_manifest.json")
    [path] = tmp_path.rglob("*.jsonl.gz")
    _, [file], [shown] = artifact("export-due")
    assert (file["organization"], file["rows"], file["file"]) == ("acme", "1", str(path))
    assert shown["manifest"] == str(manifest)


@pytest.mark.long
def test_an_export_that_breaks_off_is_not_begun_anew_under_other_names(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.export import export

    cut: list[str] = []

    def hook(reached: str) -> None:
        if reached == "export.file_put" and not cut:
            cut.append(reached)
            raise Unavailable("the store", "it is gone")

    monkeypatch.setattr(failpoint, "hook", hook)
    to = str(tmp_path / "out")
    state = ended(export, home=home, org=("acme",), source="operational", to=to)

    assert state.is_failed()
    with stores_of(home) as stores:
        [job] = jobs(stores)
        stores.state.jobs.retry(job.org_id, job.id, KIND)
        done = run_export(stores, job.id)
    names = {Path(file["key"]).name for file in done.manifest["files"]}
    assert sorted(path.name for path in Path(to).rglob("*.gz")) == sorted(names)


@pytest.mark.long
def test_an_export_that_fails_is_told_with_its_reason(home: Path) -> None:
    from flows.export import export_due

    with stores_of(home) as stores:
        job = submit_export(
            stores.organization(org_id(stores)), ExportRequest(source=Source.OPERATIONAL)
        )
    (home / "staging" / "exports").mkdir(parents=True, exist_ok=True)
    (home / "staging" / "exports" / job).write_text("in the way")

    state = ended(export_due, home=home, org=("acme",))

    assert state.is_failed()
    assert f"acme: export {job}: " in str(state.message)


def test_a_schedule_is_run_now(home: Path) -> None:
    from flows.export import export_schedule

    with stores_of(home) as stores:
        create_schedule(stores.organization(org_id(stores)), "test", HOURLY)

    state = ended(export_schedule, home=home, org="acme", schedule="meters")
    [row] = state.result()

    assert (row["files"], row["rows"], row["manifest"]) == (1, 1, "kept for its download")
    summary, files = artifact("export")
    assert (summary[0]["rows"], len(files)) == ("1", 1)
    with stores_of(home) as stores:
        assert {job.due is None: job.status for job in jobs(stores)} == {
            True: "COMPLETE",
            False: "PENDING",
        }


@pytest.mark.long
def test_a_run_from_the_deployment_of_a_schedule_has_the_name_of_the_workers_runs(
    home: Path,
) -> None:
    from flows.export import export_job, export_schedule
    from flows.export_deployments import deployment_specs as deployments

    with stores_of(home) as stores:
        create_schedule(stores.organization(org_id(stores)), "test", HOURLY)
        [first] = jobs(stores)
        [deployment] = deployments(stores, home)
        known_by = describe_export(stores, first)

    quick = ended(export_schedule, **deployment.parameters)

    with stores_of(home) as stores:
        given = {"home": home, "org": org_id(stores), "job": first.id, "name": known_by}
    worked = ended(export_job, **given)

    for state in (quick, worked):
        run = run_of(state)
        assert (run.name, run.tags) == ("export All meters for acme", ["org:acme"])


async def deployed() -> dict[str, str]:
    """The descriptions of the deployments of schedules by name."""
    from prefect.client.orchestration import get_client

    from flows.export_deployments import TAG

    async with get_client() as client:
        found = await client.read_deployments()
    return {each.name: each.description for each in found if TAG in each.tags}


@pytest.mark.long
def test_every_schedule_has_a_deployment_that_people_know(home: Path) -> None:
    from prefect.runner import Runner

    from flows.export_deployments import bring_up_to_date, deployment_specs

    def wanted() -> dict[str, Any]:
        with stores_of(home) as stores:
            return {each.name: each for each in deployment_specs(stores, home)}

    async def play() -> None:
        runner, known = Runner(), {}
        with stores_of(home) as stores:
            for code in ("acme", "bolt"):
                create_schedule(stores.organization(org_id(stores, code)), "test", HOURLY)
        known = await bring_up_to_date(runner, wanted(), known)
        first = await deployed()
        assert set(first) == {"All meters (meters) of acme", "All meters (meters) of bolt"}
        assert "operational data: every hour." in first["All meters (meters) of acme"]

        with stores_of(home) as stores:
            enable_schedule(stores.organization(org_id(stores)), "test", "meters", enabled=False)
        known = await bring_up_to_date(runner, wanted(), known)
        assert ": disabled." in (await deployed())["All meters (meters) of acme"]
        await bring_up_to_date(runner, {}, known)
        assert await deployed() == {}

    asyncio.run(play())


@pytest.mark.long
def test_who_serves_the_deployments_follows_the_schedules(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import export_deployments
    from flows.schedules import run_all

    monkeypatch.setattr(export_deployments, "LOOK_S", 0.1)

    async def until(names: set[str]) -> None:
        for _ in range(600):
            if set(await deployed()) == names:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(await deployed())

    async def play() -> None:
        serving = asyncio.create_task(run_all([], home))
        try:
            with stores_of(home) as stores:
                create_schedule(stores.organization(org_id(stores)), "test", HOURLY)
                await until({"All meters (meters) of acme"})
                delete_schedule(stores.organization(org_id(stores)), "test", "meters")
                await until(set())
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    before = signal.getsignal(signal.SIGTERM)
    try:
        asyncio.run(play())
    finally:
        signal.signal(signal.SIGTERM, before)
