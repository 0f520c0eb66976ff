"""`meterlake integrations`: the runs of an organization, and the tries of one."""

import json
import shutil
from datetime import UTC, datetime

import pytest

from meterlake.cli import run
from meterlake.model.configuration.integrations import RunStatus
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.organizations import prepare_home
from tests.stored_runs import add_run, end_run

START = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("integrations")
    settings = Settings(home=prepare_home(folder / "home"), _env_file=None)
    made = initialize(settings, "Sample")
    with open_stores(settings) as stores:
        organization = stores.organization(made.org_id)
        add_run(organization, START, "a")
        error = "no such customer"
        tried = {"status_code": 400, "error": error}
        end_run(organization, START, RunStatus.ERROR, error=error, tried=tried)
        add_run(organization, START, "b", entity_id="b2")
    return settings.home


@pytest.fixture
def home(template, tmp_path):
    return str(shutil.copytree(template, tmp_path / "home"))


def test_a_status_that_is_none_is_refused(home, capsys):
    assert run(["integrations", "runs", "--status", "FINE", "--home", home]) == 1
    assert "one of WAITING" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_an_error(home, capsys):
    assert run(["integrations", "show", "nothing", "--home", home]) == 1
    assert "'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "entities"),
    [
        ([], ["b2", "b1"]),
        (["--status", "error"], ["b1"]),
        (["--entity", "b2", "--entity-type", "Bill"], ["b2"]),
        (["--entity-type", "Notification"], []),
        (["--integration", "none"], []),
        (["--limit", "1"], 1),
    ],
)
def test_runs_are_listed_and_filtered(home, capsys, options, entities):
    assert run(["integrations", "runs", *options, "--home", home, "--json"]) == 0
    found = [json.loads(line)["entityId"] for line in capsys.readouterr().out.splitlines()]

    assert (len(found) if isinstance(entities, int) else sorted(found, reverse=True)) == entities


def test_a_run_is_shown_with_its_tries(home, capsys):
    assert run(["integrations", "runs", "--status", "ERROR", "--home", home, "--json"]) == 0
    id_ = json.loads(capsys.readouterr().out)["id"]
    assert run(["integrations", "show", id_, "--home", home, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(each["number"], each["statusCode"]) for each in shown["tries"]] == [(1, 400)]

    assert run(["integrations", "show", id_, "--home", home]) == 0
    assert "no such customer" in capsys.readouterr().out


@pytest.mark.long
def test_an_integration_is_listed_and_deleted(home, capsys, tmp_path):
    file = tmp_path / "integration.yaml"
    file.write_text(
        "integrationConfigs:\n"
        "  - {entityType: Bill, destination: HTTP, name: Books,"
        ' configData: {url: "https://books.example.com/"}}\n'
    )
    assert run(["config", "apply", str(file), "--home", home]) == 0
    capsys.readouterr()
    assert run(["integrations", "list", "--home", home, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["enabled"], listed["entityId"]) == ("Books", True, "*")

    assert (
        run(["integrations", "delete", listed["id"], "--mappings", "delete", "--home", home]) == 0
    )
    assert listed["id"] in capsys.readouterr().out
    assert run(["integrations", "delete", listed["id"], "--home", home]) == 1
    assert run(["integrations", "list", "--home", home, "--json"]) == 0
    assert not capsys.readouterr().out


def test_the_list_of_runs_says_what_each_did(home, capsys):
    assert run(["integrations", "runs", "--home", home]) == 0
    assert "SEND" in capsys.readouterr().out


def test_a_deleted_bill_that_another_system_has_is_listed_with_the_reason(home, capsys, tmp_path):
    bill = "2f6a5e0c-3b3d-4a61-9c3c-7f9a6a0f9d11"
    file = tmp_path / "mapping.yaml"
    file.write_text(
        f"externalMappings:\n  - {{m3terEntity: Bill, m3terId: {bill}, externalSystem: STRIPE,"
        " externalTable: Invoice, externalId: in_9}\n"
    )
    assert run(["config", "apply", str(file), "--home", home]) == 0
    capsys.readouterr()

    assert run(["integrations", "deleted-bills", "--home", home]) == 0
    out = capsys.readouterr().out
    assert bill in out
    assert "void it there by hand" in " ".join(out.split())
    assert run(["integrations", "deleted-bills", "--take-back", "--home", home, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["externalId"] == "in_9"
