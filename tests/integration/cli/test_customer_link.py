"""`meterlake customer-link`: links to a customer's own page, made, listed and revoked."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.errors import Unauthorized
from meterlake.pipeline.access.customer_links import open_link
from tests.homes import ACCOUNTS, a_home, configure
from tests.people import deny, join, policy


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("links")) as found:
        configure(found.organization, accounts=ACCOUNTS)
        yield found


@pytest.fixture
def call(home, capsys):
    """What a command says: its exit code, its JSON lines, its error."""

    def called(*arguments):
        code = run(["customer-link", *arguments, "--home", str(home.stores.home), "--json"])
        said = capsys.readouterr()
        return code, [json.loads(line) for line in said.out.splitlines()], said.err

    return called


def test_a_link_is_made_listed_and_revoked_by_name(home, call):
    code, [made], _ = call(
        *("create", "acme", "--name", "Portal", "--origin", "https://portal.acme.example"),
        *("--url", "https://bills.example/"),
    )
    assert code == 0
    base, token = made["link"].rsplit("/", 1)
    assert base == "https://bills.example/customer"
    opened = open_link(home.stores, token)
    assert opened.link.allowed_origins == ("https://portal.acme.example",)

    code, [listed], _ = call("list", "acme")
    assert (code, listed["name"], listed["status"]) == (0, "Portal", "WORKS")
    assert token not in json.dumps(listed)
    assert call("list", "bolt")[1] == []
    code, _, error = call("revoke", "bolt", "Portal")
    assert code == 1
    assert "CustomerLink" in error
    code, [done], _ = call("revoke", "acme", "Portal")
    assert (code, done["revoked"]) == (0, True)
    with pytest.raises(Unauthorized, match="revoked"):
        open_link(home.stores, token)
    assert call("list", "acme")[1][0]["status"] == "REVOKED"
    assert call("revoke", "acme", listed["id"])[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody", "--name", "x"), "nobody"),
        (("acme", "--name", "x", "--days", "400"), "dtExpiry"),
        (("acme", "--name", "x", "--origin", "*"), "the origin of a page"),
    ],
)
def test_a_link_that_would_be_none_is_refused(call, arguments, said):
    code, lines, error = call("create", *arguments)

    assert (code, lines) == (1, [])
    assert said in error


def test_who_may_make_no_links_makes_none(home, call):
    state, org = home.stores.state, home.org_id
    id_ = policy(state, org, deny("config:create", "config:customerlink/*"))
    join(state, org, "eve@example.com", permissionPolicyIds=[id_])
    code, _, error = call("create", "acme", "--name", "Mine", "--as", "eve@example.com")

    assert code == 1
    assert "no permission for config:create on customerlink" in error
