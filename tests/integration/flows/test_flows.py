"""Each flow end to end on a small home, with Prefect's own server."""

import json
import logging
import re
import time
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import duckdb
import pytest

from meterlake.cli import run
from meterlake.model.values import failpoint
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.integration.flows.conftest import drop

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]

GOOD = "egress,acme,{uid},2026-10-0{day}T12:00:00Z,{gb},eu"


def usage(*uids: str) -> list[str]:
    return [GOOD.format(uid=uid, day=day, gb=10 * day) for day, uid in enumerate(uids, 1)]


def artifact(key: str) -> list[list[dict[str, str]]]:
    """The tables of the newest artifact of a key."""
    from prefect.artifacts import Artifact

    found = Artifact.get(key)
    tables: list[list[list[str]]] = [[]]
    for line in found.data.splitlines():
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            tables[-1].append([re.sub(r"\\(.)", r"\1", cell.strip()) for cell in cells])
        elif tables[-1]:
            tables.append([])
    return [
        [dict(zip(names, row, strict=True)) for row in rows]
        for names, _, *rows in filter(None, tables)
    ]


def titles(key: str) -> list[str]:
    """The titles of the tables of the newest artifact of a key."""
    from prefect.artifacts import Artifact

    return re.findall(r"^## (.*)$", Artifact.get(key).data, re.MULTILINE)


def ended(flow: Any, **parameters: Any) -> Any:
    """The state that a run of a flow ends in."""
    return flow(**parameters, return_state=True)


def run_of(state: Any) -> Any:
    """The flow run that ended in a state."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(state.state_details.flow_run_id)


def reports_of(run: Any) -> list[str]:
    """The keys of the artifacts that a run left, its own tasks included."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        return [str(each.key) for each in client.read_artifacts(artifact_filter=mine)]


def errors(run: Any) -> list[str]:
    """The lines of a run's log that are errors."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId, LogFilterLevel

    mine = LogFilter(
        flow_run_id=LogFilterFlowRunId(any_=[run.id]), level=LogFilterLevel(ge_=logging.ERROR)
    )
    assert logged(run, "Finished in state")
    with get_client(sync_client=True) as client:
        return [each.message for each in client.read_logs(log_filter=mine, limit=200)]


def logged(run: Any, words: str) -> list[str]:
    """The lines of a run's log that have some words; they arrive a little later than its end."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    mine = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id]))
    for _ in range(1200):
        with get_client(sync_client=True) as client:
            found = [each.message for each in client.read_logs(log_filter=mine, limit=200)]
        if matching := [line for line in found if words in line]:
            return matching
        time.sleep(0.1)
    return []


@pytest.mark.long
def test_ingest_takes_the_drop_folders_of_all_organizations(home: Path) -> None:
    from flows.ingest import ingest

    drop(home, "acme", "a.csv", *usage("1", "2"), "egress,acme,3,2026-10-01T00:00:00Z,many,eu")
    drop(home, "bolt", "b.csv", *usage("1"))

    rows = ingest(home=home)

    counts = ("organization", "files", "received", "accepted", "repeats", "rejected", "problems")
    assert [tuple(row[name] for name in counts) for row in rows] == [
        ("acme", 1, 3, 2, 0, 1, 0),
        ("bolt", 1, 1, 1, 0, 0, 0),
    ]
    summary, [acme, bolt] = artifact("ingest")
    assert [row["received"] for row in summary] == ["3", "1"]
    assert (acme["file"], acme["reasons"]) == ("a.csv", "InvalidNumber 1")
    assert (Path(acme["report in"]) / "a.csv.report.json").exists()
    assert bolt["organization"] == "bolt"


@pytest.mark.long
def test_ingest_fails_at_the_end_when_a_file_cannot_be_read(home: Path) -> None:
    from flows.ingest import ingest

    drop(home, "acme", "a.csv.gz", *usage("1"))
    drop(home, "acme", "b.csv", *usage("1"))

    state = ended(ingest, home=home, org=["acme"])

    assert state.is_failed()
    assert "acme: a.csv.gz: " in str(state.message)
    [row], _ = artifact("ingest")
    assert (row["files"], row["accepted"], row["problems"]) == ("2", "1", "1")
    # Somebody else's mistake is a warning, and no trace stands behind it.
    assert errors(run_of(state)) == []
    assert all("Traceback" not in line for line in logged(run_of(state), "a.csv.gz"))


@pytest.mark.long
def test_a_failure_is_logged_in_one_line(tmp_path: Path) -> None:
    """The trace of a failure that is known says nothing more than the failure."""
    from flows.ingest import ingest

    state = ended(ingest, home=tmp_path / "none")

    assert state.is_failed()
    lines = logged(run_of(state), "Encountered exception")
    assert str(tmp_path / "none") in lines[0]
    assert "\n" not in lines[0]


@pytest.mark.long
def test_a_run_that_is_marked_crashed_after_its_end_has_done_its_work_once(home: Path) -> None:
    """The automation of runs without a heartbeat may come between completion and exit."""
    from prefect.client.orchestration import get_client
    from prefect.states import Crashed

    from flows.ingest import ingest

    drop(home, "acme", "a.csv", *usage("1", "2"))
    run = run_of(ended(ingest, home=home, org=["acme"]))
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, Crashed(message="no heartbeat"), force=True)
        assert client.read_flow_run(run.id).state.is_crashed()
    drop(home, "acme", "a again.csv", *usage("1", "2"))

    [row] = ingest(home=home, org=["acme"])

    assert (row["received"], row["accepted"], row["repeats"]) == (2, 0, 2)


@pytest.mark.long
def test_ingest_takes_files_where_they_lie(home: Path, tmp_path: Path) -> None:
    from flows.ingest import ingest

    file = drop(home, "acme", "a.csv", *usage("1", "2")).rename(tmp_path / "a.csv")

    [row] = ingest(home=home, org=("bolt",), file=(file,))

    assert (row["organization"], row["accepted"]) == ("bolt", 2)
    assert file.exists()


def test_ingest_asks_whose_files_they_are(home: Path, tmp_path: Path) -> None:
    from flows.ingest import ingest

    file = drop(home, "acme", "a.csv", *usage("1")).rename(tmp_path / "a.csv")

    state = ended(ingest, home=home, file=(file,))

    assert state.is_failed()
    assert "--org is required: this home has" in str(state.message)


@pytest.mark.long
def test_bill_aggregates_and_bills_every_organization(home: Path) -> None:
    from flows.bill import bill
    from flows.ingest import ingest

    for org in ("acme", "bolt"):
        drop(
            home,
            org,
            "a.csv",
            *usage("1", "2"),
            GOOD.replace("acme", "bolt").format(uid="3", day=5, gb=1),
        )
    ingest(home=home)

    rows = bill(home=home, month="2026-10")
    again = bill(home=home, month="2026-10")

    # A standing charge of 10, and 10 + 20 GB at 1 dollar each.
    assert [row["total"] for row in rows] == ["40.00 USD", "40.00 USD"]
    assert {row["of which"] for row in rows} == {"1 created"}
    assert {row["of which"] for row in again} == {"1 unchanged"}
    _, unpriced = artifact("bill")
    assert [row["account"] for row in unpriced] == ["bolt", "bolt"]
    assert [row["quantity"] for row in unpriced] == ["1 GBy", "1 GBy"]
    assert [row["units to price"] for row in unpriced] == ["1 × GB", "1 × GB"]
    assert titles("bill") == ["Unpriced usage"]


@pytest.mark.long
@pytest.mark.parametrize("step", ["quantities.done", "bill.submitted"])
def test_quantities_are_those_of_the_bills_whenever_a_file_comes(
    home: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    from flows.bill import bill

    def ingest(name: str, *rows: str) -> None:
        path = drop(home, "acme", name, *rows)
        assert run(["ingest", "--home", str(home), "--org", "acme", str(path)]) == 0

    def come(name: str) -> None:
        if name == step:
            monkeypatch.setattr(failpoint, "hook", None)
            ingest("late.csv", GOOD.format(uid="2", day=2, gb=5))

    ingest("a.csv", *usage("1"))
    monkeypatch.setattr(failpoint, "hook", come)

    [row] = bill(home=home, org=("acme",), month="2026-10")

    assert failpoint.hook is None
    # A standing charge of 10.
    assert row["total"] == "20.00 USD"
    assert run(["publish", "--home", str(home), "--org", "acme"]) == 0
    file = str(home / "published/acme/warehouse.duckdb")
    with duckdb.connect(file, read_only=True) as connection:
        assert connection.sql("SELECT quantity FROM quantity_current").fetchall() == [(10,)]


@pytest.mark.long
def test_bill_leaves_approved_bills_as_they_are_unless_it_is_told_to_change_them(
    home: Path,
) -> None:
    from flows.bill import bill
    from flows.ingest import ingest

    drop(home, "acme", "a.csv", *usage("1"))
    ingest(home=home)
    bill(home=home, org=("acme",), month="2026-10", approve=True)
    drop(home, "acme", "b.csv", *usage("2"))
    ingest(home=home)
    found = [
        bill(home=home, org=("acme",), month="2026-10", approve=True),
        bill(home=home, org=("acme",), month="2026-10"),
    ]
    _, left = artifact("bill")
    [changed] = bill(home=home, org=("acme",), month="2026-10", change_approved=True)

    kept = ("1 kept", "20 USD")
    assert [(row["of which"], row["total"]) for [row] in found] == [kept, kept]
    assert [(each["total"], each["would be"], each["status"]) for each in left] == [
        ("20.00 USD", "30.00 USD", "kept")
    ]
    assert (changed["of which"], changed["total"]) == ("1 updated", "30.00 USD")


@pytest.mark.long
def test_one_organization_that_cannot_be_billed_does_not_stop_the_others(home: Path) -> None:
    from flows.bill import bill

    (home / "lakes" / org_id(home, "acme") / "catalog.sqlite").unlink()

    state = ended(bill, home=home, month="2026-10")

    assert state.is_failed()
    assert "acme: NotFound" in str(state.message)
    assert "bolt" not in str(state.message)
    [acme, bolt], *_ = artifact("bill")
    assert (acme["problems"], bolt["problems"], bolt["total"]) == ("1", "0", "10.00 USD")


@pytest.mark.long
def test_export_writes_files_and_shows_their_manifest(home: Path, tmp_path: Path) -> None:
    from flows.export import export
    from flows.ingest import ingest

    drop(home, "acme", "a.csv", *usage("1", "2"))
    ingest(home=home)
    target = tmp_path / "out"

    [row] = export(home=home, org=("acme",), to=str(target), format="jsonl", month="2026-10")

    [manifest] = target.rglob("*_manifest.json")
    assert row["manifest"].endswith(manifest.name)
    assert row["rows"] == json.loads(manifest.read_text())["rows"] == 2
    _, files, [shown] = artifact("export")
    assert len(files) == row["files"]
    assert shown["manifest"] == str(manifest)


@pytest.mark.long
def test_publish_tells_where_the_warehouse_is(home: Path) -> None:
    from flows.publish import publish

    [row] = publish(home=home, org=("acme",))

    with duckdb.connect(row["warehouse"], read_only=True) as connection:
        assert connection.execute("SHOW TABLES").fetchall()


@pytest.mark.long
def test_maintain_merges_small_files(home: Path) -> None:
    from flows.ingest import ingest
    from flows.maintain import maintain

    for name in ("a", "b"):
        drop(home, "acme", f"{name}.csv", *usage(f"{name}1", f"{name}2"))
    ingest(home=home)

    rows = maintain(home=home)

    assert [row["organization"] for row in rows] == ["acme", "bolt"]
    assert rows[0]["files merged"] > 0


@pytest.mark.long
def test_check_compares_the_books_and_fails_on_a_difference(home: Path) -> None:
    from flows.check import check
    from flows.ingest import ingest
    from flows.outcome import Incomplete

    drop(home, "acme", "a.csv", *usage("1", "2"), "egress,acme,3,2026-10-01T00:00:00Z,many,eu")
    ingest(home=home)
    acme, bolt = check(home=home)
    counts = ("received", "accepted", "repeats", "rejected", "measurements", "problems")
    assert [acme[name] for name in counts] == [3, 2, 0, 1, 2, 0]
    assert bolt["sources"] == 0

    with open_stores(Settings(home=home)) as stores:
        lake = stores.lake(stores.state.organization("acme").id)
        with lake.lock(), lake.transaction() as connection:
            connection.execute("DELETE FROM lake.uid_index WHERE uid = '1'")
    with pytest.raises(Incomplete, match=r"acme: a\.csv: known uids: 2 in the ledger, 1 found"):
        check(home=home)


def test_a_month_that_is_none_is_refused_before_the_run(home: Path) -> None:
    from prefect.exceptions import ParameterTypeError

    from flows.bill import bill

    with pytest.raises(ParameterTypeError):
        bill(home=home, month="October")


def test_a_month_that_has_not_begun_is_not_billed(home: Path) -> None:
    from flows.bill import bill

    state = ended(bill, home=home, org=("acme",), month="2099-01")

    assert state.is_failed()
    assert "'2099-01' is not allowed: it has not begun: it begins at 2099-01-01" in str(
        state.message
    )


def org_id(home: Path, code: str) -> str:
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        return stores.state.organization(code).id


@pytest.mark.long
def test_a_run_says_what_it_does_and_for_whom(home: Path) -> None:
    from flows.bill import bill
    from flows.ingest import ingest
    from flows.upload import upload

    drop(home, "acme", "a.csv", *usage("1", "2"), "egress,acme,3,2026-10-01T00:00:00Z,many,eu")
    ids = [org_id(home, code) for code in ("acme", "bolt")]

    came, billed = ended(ingest, home=home, org=ids), ended(bill, home=home, month="2026-10")
    none = ended(upload, home=home, org=ids[1], name="usage.csv")

    found = [(run.name, sorted(run.tags)) for run in map(run_of, (came, billed, none))]
    both = ["org:acme", "org:bolt"]
    assert found == [
        ("ingest dropped files for acme, bolt", both),
        ("bill 2026-10 for acme, bolt", both),
        ("upload usage.csv for bolt", ["org:bolt"]),
    ]
    run = run_of(came)
    [line] = logged(run, "acme: ")
    assert line == "acme: files 1, received 3, accepted 2, repeats 0, rejected 1, problems 0"
    assert tags_of_tasks(run) == {
        "find organizations": set(),
        "ingest the drop folder of acme": {"org:acme"},
        "ingest the drop folder of bolt": {"org:bolt"},
        "measurements of acme, 2026-10": {"org:acme"},
    }


def tags_of_tasks(run: Any) -> dict[str, set[str]]:
    """The tags of the task runs of a run, by their names; they arrive a little later."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    mine = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    found: dict[str, set[str]] = {}
    for _ in range(1200):
        with get_client(sync_client=True) as client:
            tasks = client.read_task_runs(flow_run_filter=mine)
        found = {each.name: set(each.tags) for each in tasks}
        if len(found) == 3:
            break
        time.sleep(0.1)
    return found


def test_many_organizations_are_counted_in_the_name_of_a_run() -> None:
    from flows.labels import whom

    assert whom([]) == "no organization"
    assert whom(["a", "b", "c"]) == "a, b, c"
    assert whom([str(each) for each in range(1203)]) == "0, 1, 2 and 1,200 more"


@pytest.mark.long
def test_a_summary_tells_what_came_in_through_any_door(home: Path) -> None:
    from flows.ingest import ingest
    from flows.ingest_summary import ingest_summary

    drop(home, "acme", "a.csv", *usage("1", "2"), "egress,acme,3,2026-10-01T00:00:00Z,many,eu")
    ingest(home=home)

    state = ended(ingest_summary, home=home)

    rows, run = state.result(), run_of(state)
    assert [row["organization"] for row in rows] == ["acme", "bolt"]
    assert (run.name, run.tags) == (
        "ingest summary of the last hour for acme, bolt",
        ["org:acme", "org:bolt"],
    )
    _, hours, files = artifact("ingest-summary")
    assert titles("ingest-summary") == ["By hour", "Files"]
    assert [(row["organization"], row["received"], row["rejected"]) for row in hours] == [
        ("acme", "3", "1")
    ]
    assert [(row["name"], row["reasons"]) for row in files] == [("a.csv", "InvalidNumber 1")]
    [line] = logged(run, "bolt: ")
    assert line.endswith(
        "files 0, segments 0, received 0, accepted 0, repeats 0, rejected 0, failed 0, problems 0"
    )


# Every flow whose run needs no job or decision of somebody; of the others their own tests tell.
ONE_REPORT = (
    *("aggregate", "bill", "bill_due", "check", "deliver", "export", "export:export_due", "inbox"),
    *("ingest", "ingest_summary", "maintain", "publish", "statement", "upload", "upload_due"),
    "verify",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_REPORT)
def test_a_run_leaves_one_report(home: Path, kind: str) -> None:
    from flows.kinds import flow_of

    flow = flow_of(kind)
    drop(home, "acme", "a.csv", *usage("1", "2"))
    parameters = signature(flow.fn).parameters
    code: Any = "acme" if parameters["org"].default is Parameter.empty else ("acme",)
    month = {"month": "2026-10"} if "month" in parameters else {}

    state = ended(flow, home=home, org=code, **month)

    assert state.is_completed(), state.message
    assert reports_of(run_of(state)) == [flow.name]
