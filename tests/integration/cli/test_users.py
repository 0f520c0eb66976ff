"""`meterlake users invite`: the link with which somebody chooses a password."""

import json
import re

import httpx
import pytest

from meterlake.cli import run
from meterlake.model.catalog.catalog import Product
from meterlake.pipeline.access import login, users
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from tests.homes import new_home, settings
from tests.people import allow, join, policy
from tests.served import running

PASSWORD = "correct horse battery staple"


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    new_home(path)
    return path


def invite(capsys, home, *more):
    name = ("--first-name", "Ada", "--last-name", "Lovelace")
    code = run(["users", "invite", "ada@acme.example", *name, *more, "--home", str(home), "--json"])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_link_leads_to_a_password_and_that_to_the_console(home, capsys):
    port = free_port()
    code, out, _ = invite(capsys, home, "--url", f"http://127.0.0.1:{port}/")
    assert code == 0
    link = json.loads(out)["link"]

    with running(settings(home), port), httpx.Client(follow_redirects=True) as browser:
        page = browser.get(link).text
        fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page))
        chosen = {**fields, "password": PASSWORD, "again": PASSWORD}
        assert browser.post(link.partition("?")[0], data=chosen).is_success
        page = browser.get(f"http://127.0.0.1:{port}/console").text
        fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page))
        sent = {**fields, "email": "ada@acme.example", "password": PASSWORD}
        found = browser.post(f"http://127.0.0.1:{port}/oauth/authorize", data=sent)

    assert found.url.path.startswith("/console/months/")
    assert "Ada Lovelace" in found.text


def test_a_policy_that_is_none_is_refused_with_those_that_are(home, capsys):
    code, _, err = invite(capsys, home, "--policy", "Admin")

    assert code == 1
    assert "it must be one of the policies Administrator, ReadOnly" in err


def test_who_is_a_user_is_not_invited_again(home, capsys):
    from meterlake.stores import open_stores
    from tests.people import join

    with open_stores(settings(home)) as stores:
        [organization] = stores.state.organizations()
        join(stores.state, organization.id, "ada@acme.example")
    code, _, err = invite(capsys, home)

    assert code == 1
    assert "is a user of the organization already" in err


def test_an_address_that_is_assumed_is_said(home, capsys):
    name = ("--first-name", "Ada", "--last-name", "Lovelace", "--home", str(home))
    assert run(["users", "invite", "ada@acme.example", *name]) == 0
    told = capsys.readouterr()
    assert "assumes that people reach the server at http://127.0.0.1:8000" in told.out + told.err

    assert run(["users", "invite", "bo@acme.example", *name, "--url", "http://there/"]) == 0
    told = capsys.readouterr()
    assert "http://there/oauth/password" in told.out
    assert "assumes" not in told.out + told.err


def test_who_is_a_user_is_given_a_policy_and_the_access_back(home, capsys):
    with open_stores(settings(home)) as stores:
        state, [organization] = stores.state, stores.state.organizations()
        join(state, organization.id, "ada@acme.example", dtEndAccess="2026-01-01T00:00:00Z")
    grant = ("users", "grant", "Ada Lovelace")
    assert run([*grant, "Admin", "--home", str(home)]) == 1
    assert "it must be one of the policies" in capsys.readouterr().err
    assert run([*grant, "Administrator", "--restore-access", "--home", str(home)]) == 0
    capsys.readouterr()

    [ada] = lines(home, capsys, "list")
    assert ada["policies"] == ["Administrator"]
    assert "dtEndAccess" not in ada
    assert run(["users", "grant", "bo@acme.example", "ReadOnly", "--home", str(home)]) == 1
    assert "ada@acme.example" in capsys.readouterr().err


def test_a_link_to_a_new_password_is_printed(home, capsys):
    with open_stores(settings(home)) as stores:
        state, org = stores.state, stores.state.organization().id
        everything = policy(state, org, allow())
        join(state, org, "ada@acme.example", permissionPolicyIds=[everything])
        people = policy(state, org, allow("config:update", "config:user/*"))
        join(state, org, "bo@acme.example", permissionPolicyIds=[people])
    command = ("users", "password-link", "ada@acme.example", "--home", str(home))
    assert run([*command, "--url", "http://there/"]) == 0
    assert "http://there/oauth/password?token=" in capsys.readouterr().out

    # Who may change people, and not give policies, becomes no administrator by it.
    assert run([*command, "--as", "bo@acme.example"]) == 1
    assert "leads further than you may go yourself" in capsys.readouterr().err
    assert run([*command, "--as", "ada@acme.example", "--json"]) == 0
    link = json.loads(capsys.readouterr().out)["link"]
    with open_stores(settings(home)) as stores:
        users.follow(stores.state, link.partition("token=")[2], "another horse and battery")
        assert login.sign_in(stores.state, "ada@acme.example", "another horse and battery")


def lines(home, capsys, *arguments):
    assert run(["users", *arguments, "--home", str(home), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_users_are_listed_signed_out_and_their_deeds_shown(home, capsys):
    with open_stores(settings(home)) as stores:
        state, org = stores.state, stores.state.organization().id
        id_ = join(
            state, org, "ada@acme.example", permissionPolicyIds=[policy(state, org, allow())]
        )
        login.sign_in(state, "ada@acme.example", PASSWORD)
        with state.transaction(org, f"USER_{id_}") as transaction:
            transaction.create(Product.from_wire({"name": "Disk", "code": "disk"}))
    [listed] = lines(home, capsys, "list")
    done = lines(home, capsys, "log", "--by", "ada@acme.example")
    [ended] = lines(home, capsys, "sign-out", "ada@acme.example")

    assert (listed["email"], listed["policies"]) == ("ada@acme.example", ["policy"])
    assert [(each["by"], each["action"], each["kind"], each["name"]) for each in done] == [
        ("ada@acme.example", "created", "products", "disk"),
        # What an invitation brings is granted by who followed it.
        ("ada@acme.example", "granted", "policyGrants", "ada@acme.example"),
    ]
    assert ended["ended"] == 1
    assert lines(home, capsys, "sign-out", "ada@acme.example")[0]["ended"] == 0


def test_a_log_of_no_kind_is_refused(home, capsys):
    assert run(["users", "log", "--kind", "walks", "--home", str(home)]) == 1
    assert "--kind" in capsys.readouterr().err
