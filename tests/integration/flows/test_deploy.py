"""`meterlake deploy`: what is on the server is what belongs there, once."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from meterlake.cli import run
from meterlake.model.errors import Conflict
from meterlake.settings import Settings
from meterlake.stores import open_stores

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def client(prefect: None) -> Iterator[Any]:  # noqa: ARG001
    """A client of a server that has nothing of ours, neither before nor after."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        _delete_all(client)  # Other tests leave what they had deployed.
        yield client
        _delete_all(client)


def _delete_all(client: Any) -> None:
    for pool in client.read_work_pools():
        client.delete_work_pool(pool.name)
    for each in client.read_deployments():
        client.delete_deployment(each.id)
    for automation in client.read_automations():
        client.delete_automation(automation.id)


def deploy(*pools: Any, home: Path | None = None, **options: Any) -> list[dict[str, Any]]:
    from flows.deploy import bring_up_to_date

    return bring_up_to_date(home, pools or ("process",), **options)


def outcomes(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["outcome"] for row in rows)


def ids(rows: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    return {(row["kind"], row["name"]): row["id"] for row in rows}


def test_a_server_is_named_or_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("METERLAKE_PREFECT_URL", raising=False)

    assert run(["deploy", "--home", str(tmp_path)]) == 1

    assert capsys.readouterr().err == "meterlake: METERLAKE_PREFECT_URL is required\n"


@pytest.mark.parametrize("url", ["foo", "ftp://here/x", "http://", "https:///x", ""])
def test_a_webhook_that_is_no_url_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.setenv("METERLAKE_PREFECT_URL", "http://127.0.0.1:9/api")

    assert run(["deploy", "--home", str(tmp_path), "--webhook", url]) == 1

    assert "an http:// or https:// URL" in capsys.readouterr().err


@pytest.mark.slow
def test_a_dry_run_makes_nothing_and_a_second_run_changes_nothing(client: Any, home: Path) -> None:
    from flows.schedules import DEPLOYMENTS

    dry = deploy(home=home, dry_run=True)
    assert (client.read_work_pools(), client.read_deployments()) == ([], [])
    first = deploy(home=home)
    second = deploy(home=home)

    assert {row["id"] for row in dry} == {None}
    assert [row | {"id": None} for row in first] == dry

    assert outcomes(first) == {"created": len(first)}
    assert outcomes(second) == {"unchanged": len(first)}
    assert ids(second) == ids(first)
    assert {each.name for each in client.read_deployments()} == {each.name for each in DEPLOYMENTS}


@pytest.mark.slow
def test_runs_of_a_deployment_wait_for_each_other_and_none_is_thrown_away(client: Any) -> None:
    deploy()

    for each in client.read_deployments():
        assert each.tags == ["meterlake"]
        assert each.global_concurrency_limit.limit == 1
        assert each.concurrency_options.collision_strategy == "ENQUEUE"
        # Who was killed before it began does not keep its place.
        assert each.concurrency_options.grace_period_seconds == 600
    # A worker that is killed would keep its place in a pool for good.
    assert {pool.concurrency_limit for pool in client.read_work_pools()} == {None}


@pytest.mark.slow
def test_what_an_earlier_version_made_is_removed_and_nothing_else(client: Any) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.events import AutomationCore, DoNothing, EventTrigger

    deploy()
    flow = client.create_flow_from_name("older")
    old = client.create_deployment(flow, "older", tags=["meterlake"], concurrency_limit=1)
    foreign = client.create_deployment(flow, "foreign", tags=["other"])
    trigger = EventTrigger(expect={"x"}, posture="Reactive")
    for name, tags in (("older", ["meterlake"]), ("foreign", [])):
        made = AutomationCore(name=name, tags=tags, trigger=trigger, actions=[DoNothing()])
        client.create_automation(made)
    client.create_work_pool(WorkPoolCreate(name="foreign", type="process"))

    rows = deploy()

    removed = {(row["kind"], row["name"]) for row in rows if row["outcome"] == "removed"}
    assert removed == {("deployment", "older/older"), ("automation", "older")}
    left = {each.id for each in client.read_deployments()}
    assert foreign in left
    assert old not in left
    # A limit for each deployment that has one, and none of those that are gone.
    limits = {f"deployment:{each.id}" for each in client.read_deployments() if each.id != foreign}
    assert {each.name for each in client.read_global_concurrency_limits(limit=200)} == limits
    assert "foreign" in {each.name for each in client.read_automations()}
    assert "foreign" in {each.name for each in client.read_work_pools()}


@pytest.mark.slow
def test_what_somebody_changed_is_as_it_was_again_with_the_same_id(client: Any) -> None:
    first = ids(deploy())
    changed = client.read_deployment_by_name("bill/bill")
    client.create_deployment(
        changed.flow_id, "bill", tags=["meterlake"], parameters={"month": "current"}
    )

    rows = deploy()

    updated = [row["name"] for row in rows if row["outcome"] == "updated"]
    assert updated == ["bill/bill"]
    assert len(client.read_global_concurrency_limits(limit=200)) == len(client.read_deployments())
    assert ids(rows) == first
    assert client.read_deployment_by_name("bill/bill").parameters == {"month": "last"}


@pytest.mark.slow
def test_pools_of_containers_have_the_image_and_those_not_named_are_removed(client: Any) -> None:
    deploy()

    rows = deploy("kubernetes", "docker", image="registry/meterlake:1")

    pools = {each.name: each for each in client.read_work_pools()}
    assert {name: pool.type for name, pool in pools.items()} == {
        "meterlake-kubernetes": "kubernetes",
        "meterlake-docker": "docker",
    }
    for pool in pools.values():
        variables = pool.base_job_template["variables"]["properties"]
        assert variables["image"]["default"] == "registry/meterlake:1"
    assert client.read_deployment_by_name("bill/bill").work_pool_name == "meterlake-kubernetes"
    assert outcomes(deploy("kubernetes", "docker", image="registry/meterlake:1")) == {
        "unchanged": len(rows) - 1
    }


def test_a_pool_of_another_type_is_not_taken_for_ours(client: Any) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate

    client.create_work_pool(WorkPoolCreate(name="meterlake", type="docker"))

    with pytest.raises(Conflict, match="the work pool meterlake is of type docker"):
        deploy()


@pytest.mark.slow
def test_automations_crash_runs_that_are_silent_and_call_the_webhook(client: Any) -> None:
    rows = deploy(webhook="http://127.0.0.1:9/alerts")

    found = {each.name: each for each in client.read_automations()}
    silent = found["meterlake: runs without a heartbeat are crashed"]
    block = UUID(ids(rows)["webhook", "meterlake-alerts"])
    assert silent.trigger.posture == "Proactive"
    assert silent.trigger.after == {"prefect.flow-run.heartbeat"}
    assert silent.trigger.within.total_seconds() == 90
    assert silent.actions[0].state == "CRASHED"
    assert silent.actions[0].force is False
    for each in found.values():
        assert each.actions[-1].block_document_id == block
    assert outcomes(deploy(webhook="http://127.0.0.1:9/alerts")) == {"unchanged": len(rows)}

    without = deploy()

    assert ("webhook", "removed") in {(row["kind"], row["outcome"]) for row in without}
    assert {each.id for each in client.read_automations()} == {each.id for each in found.values()}


@pytest.mark.slow
def test_a_schedule_of_exports_has_a_deployment_while_it_is_there(client: Any, home: Path) -> None:
    from meterlake.cli.export.changes import create_schedule
    from meterlake.pipeline.export.control import delete_schedule
    from tests.integration.flows.test_export import HOURLY

    name = "export-schedule/All meters (meters) of acme"
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        organization = stores.find_organization("acme")
        create_schedule(organization, "test", HOURLY)
        deploy(home=home)
        made = client.read_deployment_by_name(name)
        assert made.parameters == {"org": "acme", "schedule": "meters", "name": "All meters"}
        delete_schedule(organization, "test", "meters")

    rows = deploy(home=home)

    assert [row["name"] for row in rows if row["outcome"] == "removed"] == [name]
