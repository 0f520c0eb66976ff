"""Flows decorate, retry, fan out and report; whatever decides something is in the layers below."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FLOWS = Path(__file__).parents[3] / "flows"
MODULES = sorted(FLOWS.glob("*.py"))
VERBS = (
    *("ingest", "inbox", "upload", "bill", "export", "publish", "maintain", "check"),
    *("backfill", "backfill_decision", "backfill_job", "ingest_summary"),
    *("verify", "aggregate", "deliver", "upload_due", "close_month"),
)
ALLOWED = (
    "meterlake.pipeline.",
    # An export is asked for in the same words on the command line and as a flow.
    "meterlake.cli.export.documents",
    *("meterlake.worker.flow_runs", "meterlake.stores.processes"),
    *(
        "meterlake.model.errors",
        "meterlake.model.measurements.receipt",
        "meterlake.model.usage.quantity",
    ),
    # What is asked for, what it is of, and how people read it.
    *(
        "meterlake.model.bills.jobs",
        "meterlake.model.values.period",
        "meterlake.cli.shell.next_steps",
    ),
    *("meterlake.model.values.log_lines", "meterlake.stages.bill.pricing.currencies"),
    # The password of the server, which every process of a flow has to have.
    "meterlake.stores.prefect_access",
    # How a process says which flow run it works for.
    "meterlake.stores.state.jobs.flow_run",
    # What carries organizations has the same names as on the command line, and is reached alike.
    *("meterlake.model.work.jobs", "meterlake.stores.fan_out.dask_cluster"),
)
LIBRARIES = {"prefect", "cyclopts", "pydantic", "rich", "uvicorn", "flows"}


def imports(module: Path) -> Iterator[tuple[str, str]]:
    """Every import as the module and the name that is taken from it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", name.name) for name in node.names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_flows_import_verbs_and_errors_and_open_stores(module: Path) -> None:
    for source, name in imports(module):
        if source.startswith("meterlake"):
            opens = (source, name) in {
                ("meterlake.stores", "open_stores"),
                ("meterlake.stores", "Stores"),
                ("meterlake.stores", "Organization"),
                ("meterlake.settings", "Settings"),
                ("meterlake.stores.files.durable", "make_private"),
                ("meterlake.model.values.log_lines", "redact_logs"),
            }
            assert opens or source.startswith(ALLOWED), (source, name)


@pytest.mark.parametrize("name", VERBS)
def test_a_flow_uses_no_library_but_prefect(name: str) -> None:
    sources = {source.partition(".")[0] for source, _ in imports(FLOWS / f"{name}.py")}

    allowed = {"flows", "prefect", "pydantic", "meterlake", "collections", "pathlib", "typing"}
    assert sources <= allowed


@pytest.mark.parametrize("name", VERBS)
def test_a_flow_fits_on_a_screen_or_two(name: str) -> None:
    assert len((FLOWS / f"{name}.py").read_text().splitlines()) <= 120


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_annotations_are_evaluated(module: Path) -> None:
    # A served run could not find the types of its parameters otherwise.
    assert ("__future__", "annotations") not in set(imports(module))


@pytest.mark.parametrize("name", VERBS)
def test_prefect_finds_its_environment_set(name: str) -> None:
    first = next(iter(imports(FLOWS / f"{name}.py")))

    assert first == ("flows", "")
