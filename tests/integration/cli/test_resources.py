"""`meterlake list`, `show`, `create`, `edit`, `delete`: declared resources by their natural names."""

import csv
import io
import json
import sys

import pytest

from meterlake.cli import run
from meterlake.model.resources import RESOURCES
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.config.named_resources import resource_called, words_of_one
from tests.bills import a_home_to_bill
from tests.homes import configure
from tests.people import allow, join, policy

PLAN = ("--code", "big", "--name", "Big", "--plan-template", "cloud")


class Terminal(io.StringIO):
    """A standard input at which somebody sits."""

    def isatty(self):
        return True


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        yield opened


@pytest.fixture
def command(home, capsys):
    """Runs a command; its exit code, and what it printed on both outputs."""

    def work(*words):
        code = run([*words, "--home", str(home.stores.home)])
        told = capsys.readouterr()
        return code, told.out, " ".join(told.err.split())

    return work


@pytest.fixture
def found(command):
    """Runs a command with --json; its lines."""

    def work(*words):
        code, out, err = command(*words, "--json")
        assert code == 0, err
        return [json.loads(each) for each in out.splitlines()]

    return work


def test_every_resource_has_a_name_in_the_plural_and_in_the_singular():
    for resource in (each for each in RESOURCES if "retrieve" in each.verbs):
        for name in (resource.name, resource.kind, words_of_one(resource)):
            assert resource_called(name) is resource, name
    assert resource_called("Plan template").name == "planTemplates"
    assert resource_called("plan_templates").name == "planTemplates"
    assert words_of_one(resource_called("currencies")) == "currency"


def test_lists_are_filtered_by_the_codes_of_what_they_refer_to(home, command, found):
    configure(
        home.organization,
        planTemplates=[{**TEMPLATE, "code": "other", "name": "Other"}],
        plans=[{"code": "other", "name": "Other", "planTemplateId": "other"}],
    )
    assert [each["code"] for each in found("list", "plans", "--plan-template", "cloud")] == [
        "basic"
    ]
    plans = found("list", "plan", "--product", "cloud")
    assert {each["code"] for each in plans} == {"other", "basic"}
    assert [each["code"] for each in found("list", "account-plans", "--account", "acme")] == [
        "acme-basic"
    ]
    assert found("list", "pricings", "--plan", "other") == []
    assert len(found("list", "accounts", "--codes", "acme,bolt")) == 2
    assert [each["code"] for each in found("list", "accounts", "--search", "OLT")] == ["bolt"]
    assert found("list", "accounts", "--search", "b_lt") == []
    assert len(found("list", "accounts", "--email-address", "bills@bolt.example")) == 1

    code, out, _ = command("list", "account-plans", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, {(each["accountId"], each["planId"]) for each in rows}) == (
        0,
        {("acme", "basic"), ("bolt", "basic")},
    )
    _, out, _ = command("list", "accounts", "--limit", "1")
    assert "The first 1 are listed" in out
    assert "No contracts: `meterlake create contract" in command("list", "contracts")[1]
    assert "plan-templates" in command("list")[1]


TEMPLATE = {
    "productId": "cloud",
    "currency": "USD",
    "standingCharge": 0,
    "billFrequency": "MONTHLY",
}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list", "plns"), "no resource 'plns'; did you mean 'plans'?"),
        (("show", "zzz", "x"), "no resource 'zzz'; name one of currencies, "),
        (("list", "plans", "--templat", "cloud"), "templat is unknown"),
        (("list", "plans", "--plan-template", "clod"), "did you mean 'cloud'?"),
        (("list", "account-plans", "--includeall", "maybe"), "it must be true or false"),
        (("list", "organization-config"), "the organization has one of them"),
        (("show", "plan"), "NAME is required"),
        (("show", "plan", "basik"), "no plan 'basik'; did you mean 'basic'?"),
        (("show", "organization-config", "x"), "the organization has one of them"),
        (("create", "plan"), "--set or --file is required"),
        (("create", "plan", "--code", "big"), "is required"),
        (("create", "plan", "--colour", "red"), "colour is unknown: "),
        (("create", "plan", *PLAN[:4], "--plan-template", "clod"), "did you mean 'cloud'?"),
        (("create", "plan", *PLAN, "--standing-charge", "much"), "standingCharge: 'much'"),
        (("create", "plan", *PLAN, "--set", "standingCharge"), "--set: 'standingCharge'"),
        (("create", "plan", *PLAN, "--file", "none.yaml"), "no file 'none.yaml'"),
        (("create", "plan", "--code", "basic", *PLAN[2:]), "Plan code 'basic' belongs to "),
        (("create", "bill-config", "--bill-lock-date", "2026-09-30"), "use `edit`"),
        (("create", "export-schedule", "--code", "x"), "`meterlake export schedules`"),
        (("create", "service-user", "--name", "x"), "over the API"),
        (("edit", "plan", "basic", "--set", "pricingBands.0=1"), "pricingBands is unknown"),
        (("edit", "plan", "basic", "--plan-template", "none"), "no plan template 'none'"),
        (("edit", "plan", "basic"), "--set or --file is required: nobody can edit here"),
        (("delete", "plan", "basic", "--yes"), "plan 'basic' is still referenced by "),
        (("delete", "account", "acme", "--yes"), "account 'acme' is still referenced by "),
        (("delete", "account", "acme"), "--yes is required: nobody can be asked here"),
        (("delete", "organization-config", "--yes"), "use `edit`"),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(home, command, words, told):
    before = home.organization.configuration()
    kinds = {each: list(before.all(each)) for each in before.kinds()}

    code, out, err = command(*words)

    assert (code, out) == (1, ""), out
    assert told in err
    after = home.organization.configuration()
    assert {each: list(after.all(each)) for each in after.kinds()} == kinds


@pytest.mark.long
def test_a_thing_is_created_shown_changed_and_deleted(command, found):
    create = ("create", "plan", *PLAN, "--standing-charge", "12.345678901234567891")
    code, out, _ = command(*create, "--dry-run")
    assert code == 0
    assert "plan big would be created (dry run: nothing was written)." in out
    assert command("show", "plan", "big")[0] == 1

    assert "plan big created, version 1." in command(*create)[1]
    _, out, _ = command("show", "plan", "Big", "--history")
    for told in ("cloud", "12.345678901234567891", "by cli", "History"):
        assert told in out
    [shown] = found("show", "plan", "big")
    assert shown["version"] == 1
    [again] = found("show", "plan", shown["id"][:8])
    assert again == shown

    edit = ("edit", "plan", "big", "--name", "Biggest", "--set", "standingCharge=null")
    _, out, _ = command(*edit, "--dry-run")
    assert [line.split() for line in out.splitlines()[2:4]] == [
        ["name", "Big", "Biggest"],
        ["standingCharge", "12.345678901234567891"],
    ]
    assert found("show", "plan", "big") == [shown]
    assert "plan big changed, version 2." in command(*edit)[1]
    assert "Nothing differs: plan big stays as it is." in command(*edit)[1]
    [shown] = found("show", "plan", "big")
    assert (shown["version"], "standingCharge" in shown) == (2, False)

    assert "Would delete plan big" in command("delete", "plan", "big", "--dry-run")[1]
    assert "Deleted plan big." in command("delete", "plan", "big", "--yes")[1]
    assert "no plan 'big'" in command("show", "plan", "big")[2]


def test_fields_are_nested_and_numbers_are_exact(command, found):
    create = ("create", "pricing", "--plan", "basic", "--aggregation", "mean")
    bands = '[{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 0.12345678901234567891}]'
    command(*create, "--start-date", "2026-01-01", "--code", "mean", "--pricing-bands", bands)

    _, out, _ = command("show", "pricing", "mean", "--json")
    assert "0.12345678901234567891" in out
    assert '"startDate":"2026-01-01T00:00:00Z"' in out
    assert (
        command(
            "edit", "pricing", "mean", "--set", "pricingBands.0.unitPrice=0.2", "cumulative=yes"
        )[0]
        == 0
    )
    [shown] = found("show", "pricing", "mean")
    assert (shown["pricingBands"][0]["unitPrice"], shown["cumulative"]) == (0.2, True)
    code, _, err = command("edit", "pricing", "mean", "--set", "pricingBands.7.unitPrice=1")
    assert (code, "'7' must be the index of a list of 1" in err) == (1, True)
    code, _, err = command("edit", "pricing", "mean", "--set", "pricingBands.0.price=1")
    assert (code, "it must be one of lowerLimit" in err) == (1, True)


def test_files_replace_all_fields_and_versions_protect(command, found, tmp_path, monkeypatch):
    file = tmp_path / "plan.json"
    file.write_text(
        '{"code": "big", "name": "Big", "planTemplateId": "cloud", "standingCharge": 5}'
    )
    assert command("create", "plan", "--file", str(file))[0] == 0
    shown = command("show", "plan", "big", "--json")[1]
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"code: big\nname: B\nplanTemplateId: cloud\n"))
    )
    assert command("edit", "plan", "big", "--file", "-")[0] == 0
    assert "standingCharge" not in found("show", "plan", "big")[0]

    file.write_text(shown)
    code, _, err = command("edit", "plan", "big", "--file", str(file))
    assert (code, "is at version 2, not 1" in err) == (1, True)
    file.write_text("[1]")
    assert "it must hold a map of fields" in command("create", "plan", "--file", str(file))[2]


def test_an_editor_changes_a_thing_that_is_written_as_people_write_it(
    command, found, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    assert "Nothing was changed." in command("edit", "plan", "basic")[1]
    monkeypatch.setenv("EDITOR", f"cp {tmp_path}/edited.yaml")
    (tmp_path / "edited.yaml").write_text("code: basic\nname: Edited\nplanTemplateId: cloud\n")
    assert "plan basic changed, version 2." in command("edit", "plan", "basic")[1]
    assert found("show", "plan", "basic")[0]["name"] == "Edited"
    (tmp_path / "edited.yaml").write_text("code: basic\n")
    code, out, err = command("edit", "plan", "basic")
    assert (code, "Your text is kept: " in out, "is required" in err) == (1, True, True)


def test_a_deletion_is_asked_first(command, found, monkeypatch):
    command("create", "plan", *PLAN)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, out, _ = command("delete", "plan", "big")
    assert (code, "Delete plan big? [y/N]" in out) == (1, True)
    assert found("show", "plan", "big")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert command("delete", "plan", "big")[0] == 0
    assert command("show", "plan", "big")[0] == 1


def test_what_accounts_have_is_named_by_account_and_code(home, command, found):
    year = {"startDate": "2026-01-01", "endDate": "2030-01-01", "currency": "USD"}
    configure(
        home.organization,
        commitments=[{"accountId": "acme", "amount": 100, **year}],
        balances=[
            {"code": "one", "name": "Prepaid", "accountId": "acme", **year},
            {"code": "two", "name": "Prepaid", "accountId": "bolt", **year},
        ],
    )
    assert found("show", "commitment", "acme")[0]["amount"] == 100
    assert found("show", "balance", "bolt", "Prepaid")[0]["code"] == "two"
    assert found("show", "balance", "bolt")[0]["code"] == "two"

    for words, told in (
        (("show", "balance", "Prepaid"), "several have this name; give the first digits of one: "),
        (("show", "balance", "bolt", "one"), "no balance 'bolt one'"),
        (("show", "commitment", "bolt"), "no commitment 'bolt'"),
    ):
        code, _, err = command(*words)
        assert (code, told in err) == (1, True), err


def test_the_one_of_its_kind_needs_no_name(home, command, found):
    assert found("show", "bill-config")[0].get("billLockDate") is None
    bill(home.organization, Month(2026, 9))
    code, _, err = command("edit", "bill-config", "--bill-lock-date", "2026-09-30")
    assert (code, "every PENDING bill" in err) == (1, True)
    assert command("edit", "organization-config", "--set", "daysBeforeBillDue=20")[0] == 0
    assert found("show", "organization-config")[0]["daysBeforeBillDue"] == 20


@pytest.mark.long
def test_who_is_named_is_the_author_and_needs_the_right(home, command, found):
    state, org = home.stores.state, home.org_id
    reads = policy(state, org, allow("config:retrieve"))
    plans = policy(
        state,
        org,
        allow("config:create", "config:plan"),
        allow("config:update", "config:plan"),
        allow("config:delete", "config:plan"),
    )
    join(state, org, "reads@acme.example", permissionPolicyIds=[reads])
    ada = join(state, org, "ada@acme.example", permissionPolicyIds=[plans])
    refused = ("--as", "reads@acme.example")
    allowed = ("--as", "ada@acme.example")

    for words in (
        ("create", "plan", *PLAN),
        ("edit", "plan", "basic", "--name", "x"),
        ("delete", "plan", "basic", "--yes"),
    ):
        code, out, err = command(*words, *refused)
        assert (code, out, "--as: no permission for config:" in err) == (1, "", True), err
    assert command("create", "account", "--code", "x", *allowed)[0] == 1
    assert found("create", "plan", *PLAN, *allowed)[0]["createdBy"] == f"USER_{ada}"
    assert found("edit", "plan", "big", "--name", "x", *allowed)[0]["lastModifiedBy"] == (
        f"USER_{ada}"
    )
    assert "ada@acme.example" in command("show", "plan", "big", "--history")[1]
    assert command("delete", "plan", "big", "--yes", *allowed)[0] == 0


def test_things_of_another_organization_are_not_found(command, found):
    [shown] = found("show", "plan", "basic")
    assert command("init", "--name", "Other")[0] == 0

    for name in ("basic", shown["id"], shown["id"][:8]):
        for words in (("show", "plan", name), ("delete", "plan", name, "--yes")):
            code, out, err = command(*words, "--org", "other")
            assert (code, out) == (1, ""), words
            assert "no plan" in err.lower() or "no Plan" in err
    assert found("show", "plan", "basic", "--org", "sample") == [shown]
