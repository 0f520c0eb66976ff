"""Commands that are suggested work as they are: they name the organization and the home."""

import json
import re
import shlex

import pytest

from meterlake.cli import run
from meterlake.cli.app import build
from meterlake.cli.shell.next_steps import WITHOUT_HOME, WITHOUT_ORG, CommandPlace
from meterlake.model.configuration.organization import OrganizationConfig
from tests.bills import a_home_to_bill, use
from tests.organizations import new_organization

COMMAND = re.compile(r"^  (meterlake .+)$|`(meterlake [^`]+)`", re.MULTILINE)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        new_organization(opened.stores.state, "other")
        yield opened


@pytest.fixture
def command(home, capsys):
    """Runs a command for the organization; its exit code, and all that it printed."""
    with home.organization.reading():
        code = next(e.code for e in home.stores.state.organizations() if e.id == home.org_id)

    def work(*words, org=code):
        options = [] if org is None else ["--org", org]
        status = run([*words, *options, "--home", str(home.stores.home)])
        told = capsys.readouterr()
        return status, told.out, told.err

    return work


def suggested(text):
    return [first or second for first, second in COMMAND.findall(text)]


def test_a_home_with_two_organizations_names_them(command):
    status, _, err = command("status", org=None)

    assert status == 1
    assert "--org is required: this home has " in err
    assert "other (" in err
    assert "name one, such as --org " in err


@pytest.mark.long
def test_what_is_suggested_is_accepted_as_it_is(home, command, capsys):
    texts = [command("bill", "--month", "2026-09")[1]]
    use(home, ("late", "acme", 1))
    texts.append(command("late", "--apply")[1])
    texts.append(command("bill", "review", "--month", "2026-09")[1])
    texts.append(
        command("bill", "show", "acme", "2026-09")[1].replace(
            "bill.pdf", str(home.stores.home / "b")
        )
    )
    texts.append(command("bill", "show", "nobody")[2])
    texts.append(command("bill", "versions", "acme", "2026-09")[1])
    staged = command("backfill", "start", "retract", "--uid", "late", "--reason", "no")[1]
    texts.append(staged)

    found = [each for text in texts for each in suggested(text)]
    assert len(found) > 5
    # What is applied cannot be dropped or compared any more.
    for each in sorted(found, key=lambda each: "backfill apply" in each):
        words = shlex.split(each)[1:]
        assert words[-2:] == ["--home", str(home.stores.home)], each
        assert words[-4] == "--org", each
        if "MONTH" not in each and words[:2] not in (["bill", "document"], ["backfill", "drop"]):
            assert run(words) in {0, 1}, each
            assert "meterlake: " not in capsys.readouterr().err, each


@pytest.mark.long
def test_a_staged_backfill_says_how_to_go_on(command):
    _, out, _ = command(
        "backfill", "start", "retract", "--uid", "1", "--reason", "twice", "--id", "b"
    )

    assert [each.split(" --org")[0] for each in suggested(out)][:2] == [
        "meterlake backfill apply b",
        "meterlake backfill drop b",
    ]
    _, out, _ = command("backfill", "apply", "b")
    assert any(each.startswith("meterlake backfill revert b") for each in suggested(out))
    _, out, _ = command("backfill", "show", "b", "--json")
    assert json.loads(out)["status"] == "APPLIED"


@pytest.mark.long
def test_the_policy_that_late_usage_suggests_can_be_applied(home, command, tmp_path):
    command("bill", "--month", "2026-09")
    use(home, ("late", "acme", 1))
    _, out, _ = command("late", "--apply")

    [line] = [each for each in out.splitlines() if each.startswith("  echo ")]
    echo, _, apply = line.strip().partition(" | ")
    file = tmp_path / "policy.yaml"
    file.write_text(shlex.split(echo)[1])
    assert run([*shlex.split(apply.replace("/dev/stdin", str(file)))[1:], "--json"]) == 0
    with home.organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
    assert record.entity.late_usage == "CARRY_FORWARD"
    assert record.entity.currency == "USD", "the rest stays"


def leaves(app, path=()):
    """All commands with the names of their options."""
    for name in (each for each in app if not each.startswith("-")):
        yield from leaves(app[name], (*path, name))
    if app.default_command is not None:
        names = {n for argument in app.assemble_argument_collection() for n in argument.names}
        yield " ".join(path), names


def test_every_command_gets_the_options_that_it_has():
    found = dict(leaves(build()))

    assert {name for name, options in found.items() if "--org" not in options} == WITHOUT_ORG
    assert {name for name, options in found.items() if "--home" not in options} == WITHOUT_HOME


def test_a_command_names_what_it_needs_once():
    place = CommandPlace("/a home", "acme")

    assert place.command("late --apply") == "meterlake late --apply --org acme --home '/a home'"
    assert place.command("serve") == "meterlake serve --home '/a home'"
    assert place.command("late --org bolt") == "meterlake late --org bolt --home '/a home'"
    assert place.complete("see `meterlake late`, or not") == (
        "see `meterlake late --org acme --home '/a home'`, or not"
    )
    assert CommandPlace().command("late") == "meterlake late"
