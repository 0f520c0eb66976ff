"""The pages of access: people, programs, groups, policies in words, and who did what."""

import re

import pytest
from argon2 import PasswordHasher

from meterlake.console.access.policy_words import read_policy
from meterlake.model.configuration.access import statement_documents
from meterlake.model.configuration.permissions import ADMINISTRATOR, READ_ONLY
from meterlake.pipeline.access import login
from meterlake.pipeline.access.access import reaches
from tests.console_world import CONSOLE, a_console
from tests.people import allow, deny

ACCESS = f"{CONSOLE}/access"
ATTACK = '"><script>alert(1)</script>'

READ_BILLS = "read and download bills with the usage behind their lines, revenue, and the open points of months"


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        found.join("bob@example.com")
        found.join("carl@example.com")
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def open_linked(browser, path, text):
    """Follow the link with a text on a page."""
    browser.go(path)
    found = re.search(rf'<a href="([^"]*)">\s*{re.escape(text)}\s*</a>', browser.page.text)
    assert found is not None, text
    browser.go(found[1])


def open_bob(browser, email="bob@"):
    browser.go(f"{ACCESS}/people")
    [row] = [
        each for each in re.findall(r"<tr>.*?</tr>", browser.page.text, re.DOTALL) if email in each
    ]
    browser.go(re.search(r'href="([^"]*)"', row)[1])


def choose(browser, label):
    """The value of the choice with a label."""
    return re.search(rf'<option value="([^"]*)"[^>]*>{label}</option>', browser.page.text)[1]


def test_an_invitation_without_mail_shows_its_link_once(ada):
    ada.go(f"{ACCESS}/people")
    name = {"firstName": "New", "lastName": ATTACK}
    told = ada.send({"action": "invite", "email": "new@example.com", **name, "policy": ""})

    assert re.search(r"http://127\.0\.0\.1:\d+/oauth/password\?token=\S+", told)
    assert "<script>alert" not in ada.page.text
    assert "oauth/password" not in ada.go(f"{ACCESS}/people")
    assert "new@example.com" in ada.text


def test_a_link_to_a_new_password_without_mail_is_shown_once(ada):
    open_bob(ada, "carl@")
    told = ada.press("password")

    assert re.search(r"http://127\.0\.0\.1:\d+/oauth/password\?token=\S+", told)
    assert "oauth/password" not in ada.go(ada.path)
    ada.go(f"{ACCESS}/log?kinds=passwordLinks")
    assert re.search(rf'href="{ACCESS}/log/passwordLinks/[0-9a-f-]+"', ada.page.text)
    ada.go(re.search(rf'"({ACCESS}/log/passwordLinks/[0-9a-f-]+)"', ada.page.text)[1])
    assert "carl@example.com" in ada.text


def test_an_invitation_that_is_refused_comes_back_filled_in(ada):
    ada.go(f"{ACCESS}/people")
    ada.send({"action": "invite", "email": "ada@example.com", "firstName": "A", "lastName": "B"})

    assert ada.page.status_code == 409
    assert "is a user of the organization already" in ada.text
    assert 'value="ada@example.com"' in ada.page.text


def test_a_person_gets_a_policy_and_loses_it(ada):
    open_bob(ada, "carl@")
    assert "The person has no policy." in ada.text
    policy = choose(ada, "ReadOnly")

    assert "You gave the policy." in ada.press("grant", policy=policy)
    assert "May read and download bills" in ada.text
    assert (
        "May not calculate bills and make batches of statements approve, lock and send bills"
        in ada.text
    )
    assert "You took the policy away." in ada.press("revoke", policy=policy)
    assert "The person has no policy." in ada.text


def test_the_last_administrator_keeps_access_and_policy(ada):
    open_bob(ada, "ada@")
    policy = re.search(r'name="policy" value="([^"]*)"', ada.page.text)[1]
    for action in ({"action": "end-access"}, {"action": "revoke", "policy": policy}):
        told = ada.send(action)
        assert ada.page.status_code == 409
        assert "give the Administrator policy to another user first" in told


def test_a_policy_that_somebody_has_names_them_and_has_no_button(ada):
    open_bob(ada, "ada@")
    policy = re.search(r'name="policy" value="([^"]*)"', ada.page.text)[1]
    ada.go(f"{ACCESS}/policies/{policy}/delete")

    assert "What stands against it" in ada.text
    assert "Ada Lovelace" in ada.text
    assert not re.search("<button[^>]*>Delete", ada.page.text)


def test_a_person_is_signed_out_and_the_access_ends(world, ada):
    state = world.home.stores.state
    secret = login.sign_in(state, "bob@example.com", "correct horse battery staple")
    open_bob(ada)

    assert "You ended all sign-ins, 1 of them." in ada.press("sign-out")
    assert not reaches(state, login.session_of(state, secret), world.home.org_id)
    assert "The access has ended." in ada.press("end-access")
    assert "The person has access again." in ada.press("open-access")


def test_the_secret_of_a_key_is_shown_once(ada):
    ada.go(f"{ACCESS}/programs/new")
    ada.send({"name": "Loader"})
    open_linked(ada, f"{ACCESS}/programs", "Loader")
    told = ada.press("new-key")
    [secret] = re.findall(r"<dt>Secret</dt><dd><code>([^<]+)</code>", ada.page.text)

    assert "you see it this once" in told
    assert secret not in ada.client.get(ada.path).text
    ada.go(ada.path)
    key = re.search(r'name="key" value="([^"]*)"', ada.page.text)[1]
    assert "The key is out of use." in ada.press("key-off", key=key)
    assert "The key works again." in ada.press("key-on", key=key)
    assert "You deleted the key." in ada.press("key-delete", key=key)


@pytest.mark.long
def test_a_group_gives_its_members_a_policy(ada):
    ada.go(f"{ACCESS}/groups/user/new")
    ada.send({"name": "Finance"})
    open_linked(ada, f"{ACCESS}/groups/user", "Finance")
    ada.press("put-in", member=choose(ada, "bob@example.com"))
    ada.press("grant", policy=choose(ada, "ReadOnly"))
    open_bob(ada)

    assert "the group Finance" in ada.text
    assert not ada.offers("revoke")


def test_a_policy_says_who_has_it(ada):
    open_linked(ada, f"{ACCESS}/policies", "Administrator")

    assert "May do anything with everything." in ada.text
    assert "Nobody changes it" in ada.text


def test_the_log_has_names_and_leads_to_the_changes(ada):
    ada.go(f"{CONSOLE}/catalogue/products/new")
    ada.send({"name": "Disk", "code": "disk"})
    ada.go(f"{ACCESS}/log?kinds=products&peopleOnly=true")
    assert "Ada Lovelace Created disk Products" in ada.text
    open_linked(ada, f"{ACCESS}/log?kinds=products&peopleOnly=true", "disk")

    assert "Changes of Disk" in ada.text
    assert "Created by Ada Lovelace" in ada.text
    assert "Disk" in ada.text


def test_a_policy_in_the_log_reads_as_one_would_write_it(ada):
    ada.go(f"{ACCESS}/log?kinds=permissionPolicies")
    assert '<option value="pricings">Prices</option>' in ada.page.text
    changes = set(re.findall(r'href="(/console/access/log/[^"]*)"', ada.page.text))

    read = [ada.go(each) for each in sorted(changes)]
    assert any("Effect allow, Action config:retrieve, Resource *" in each for each in read)


def test_the_log_names_settings_by_their_kind_and_says_yes_or_no(ada):
    open_linked(ada, f"{ACCESS}/log?kinds=organizationConfig", "Organization config")

    assert "Changes of Organization config" in ada.text
    assert "Allow negative balances nothing no" in ada.text


def test_who_may_only_read_sees_no_form_that_changes(world):
    reader = world.browser("reader@example.com")
    for path in ("people", "programs", "groups/user", "policies"):
        reader.go(f"{ACCESS}/{path}")
        assert reader.page.status_code == 200
        assert "Invite a person" not in reader.text
        assert f"{ACCESS}/{path}/new" not in reader.page.text
    open_bob(reader)
    actions = ("grant", "revoke", "sign-out", "end-access", "password")
    assert not any(map(reader.offers, actions))
    reader.go(f"{ACCESS}/log")
    assert reader.page.status_code == 403


def test_a_person_reads_what_they_may_do_and_leaves_everywhere(world):
    world.join("eve@example.com", allow("config:retrieve"))
    eve = world.strange_browser()
    eve.sign_in("eve@example.com")
    eve.go(f"{ACCESS}/me")
    assert f"May {READ_BILLS} read customers" in eve.text

    eve.press("leave")
    eve.go(f"{CONSOLE}/bills")
    assert eve.path == "/oauth/authorize"


@pytest.mark.parametrize(
    ("statements", "may", "partly"),
    [
        (statement_documents(ADMINISTRATOR.permission_policy), {"invite people"}, set()),
        (statement_documents(READ_ONLY.permission_policy), {"see who did what"}, set()),
        (
            [allow("config:update", "config:bill/*")],
            {"approve, lock and send bills, change their credits, and close months"},
            set(),
        ),
        (
            [allow("config:retrieve", "config:account/item/a")],
            set(),
            {"read customers with their plans and balances"},
        ),
        (
            [allow(), deny("config:retrieve", "config:bill/*")],
            {"invite people"},
            {READ_BILLS},
        ),
    ],
)
def test_a_policy_is_read_in_plain_words(statements, may, partly):
    found = read_policy(statements)

    assert may <= set(found.may)
    assert set(found.partly) == partly
    assert not set(found.may) & set(found.may_not)


def test_a_denial_and_a_single_thing_are_said():
    found = read_policy([allow(), deny("config:retrieve", "config:bill/item/b1")])

    assert found.sentences == ("May do anything with everything.", "May never read the bill b1.")
    assert READ_BILLS in found.partly
    assert found.missing[READ_BILLS] == "for some alone: read bill"
    # A reader of bills: what the words leave out is named.
    found = read_policy([allow("config:retrieve", "config:bill/*")])
    assert found.missing[READ_BILLS] == "not: read jobs of bills, read jobs of statements"
    assert read_policy([]).may == ()


def test_a_policy_is_read_before_it_is_saved(ada):
    ada.go(f"{ACCESS}/policies/new")
    assert "config:bill/*" in ada.text
    typed = {
        "name": "Bills alone",
        "permissionPolicy.0.effect": "allow",
        "permissionPolicy.0.action": ["config:retrieve"],
        "permissionPolicy.0.resource": "config:bill/*",
    }
    ada.send({**ada.hidden(), **typed, "form.try": "1"})
    assert ada.page.status_code == 200
    assert f"{READ_BILLS} (not: read jobs of bills, read jobs of statements)" in ada.text
    ada.go(f"{ACCESS}/policies")
    assert "Bills alone" not in ada.text


def test_who_reads_bills_alone_is_told_so_on_pages_of_prices_and_usage(world):
    world.join("lee@example.com", allow("config:retrieve", "config:bill/*"))
    lee = world.browser("lee@example.com")
    for page in ("catalogue/raise-prices", "usage/explain"):
        lee.go(f"{CONSOLE}/{page}")
        assert lee.page.status_code == 403, page
        assert "You may not" in lee.text
        assert "No plans yet" not in lee.text
