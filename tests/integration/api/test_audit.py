"""Who did what, who has which policy, and sign-ins that somebody ends, over HTTP."""

from datetime import timedelta
from decimal import Decimal

import httpx
import pytest
from argon2 import PasswordHasher

from meterlake.api.server.oauth import CALLBACK, CLIENT
from meterlake.model.bills.memos import CreditLineItem
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.access import PrincipalType
from meterlake.model.errors import Unauthorized
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login, users
from meterlake.pipeline.access.audit import audit_log
from meterlake.pipeline.billing.bills import delete_bill, get_bill, lock_bill, set_status
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.memos import MemoRef, create_memo, delete_memo
from meterlake.pipeline.billing.named_bills import find_bills
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.maintenance.maintain import forget_events
from meterlake.stores.state.access.audit_log import AuditFilter
from meterlake.stores.state.billing.bills.versions import list_versions
from meterlake.stores.state.core.pages import Page
from tests.closing_world import a_month_to_close
from tests.commands import wait_until
from tests.e2e.api.test_authorization import service_user, token_of
from tests.homes import HEADER, csv_row
from tests.people import PASSWORD, allow, deny, join, policy
from tests.sent_bills import home_with_bills
from tests.served import served


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("audit") / "home") as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def posted(http, path, body=None, status=httpx.codes.OK):
    found = http.post(path, json=body or {})
    assert found.status_code == status, found.text
    return found.json()


def log(http, **query):
    found = http.get("/auditlog", params=query)
    assert found.status_code == httpx.codes.OK, found.text
    return found.json()["data"]


def client_with(server, http, *statements):
    made = posted(http, "/permissionpolicies", {"name": "p", "permissionPolicy": list(statements)})
    _, key, secret = service_user(http, made["id"])
    return server.http(token_of(server, key, secret))


def product(http, code):
    return posted(http, "/products", {"name": f"The {code}", "code": code})


@pytest.mark.sees("ListAuditLog")
def test_the_log_says_who_changed_what_the_newest_first(http):
    made = product(http, "disk")
    changed = {"name": "Disks", "code": "disk", "version": made["version"]}
    http.put(f"/products/{made['id']}", json=changed).raise_for_status()
    http.delete(f"/products/{made['id']}").raise_for_status()
    found = log(http, entityId=made["id"])

    assert [each["action"] for each in found] == ["deleted", "updated", "created"]
    # What is deleted has the name that it had.
    assert {(each["kind"], each["name"]) for each in found} == {("products", "disk")}
    assert {each["by"] for each in found} == {made["createdBy"]}
    assert {each["byName"] for each in found} == {found[0]["byName"]}


def test_the_log_is_filtered_by_kind_time_and_person(http):
    made = product(http, "cpu")
    asked = {"entityId": made["id"]}

    assert [each["entityId"] for each in log(http, **asked, kinds="products")] == [made["id"]]
    assert log(http, **asked, kinds="meters") == []
    assert log(http, **asked, dateStart="2100-01-01") == []
    assert log(http, **asked, dateEnd="2100-01-01") != []
    assert log(http, **asked, createdBy=made["createdBy"]) != []
    assert log(http, **asked, createdBy="USER_00000000-0000-4000-8000-000000000000") == []
    assert http.get("/auditlog", params={"kinds": "walks"}).status_code == 400


def test_pages_of_the_log_have_each_entry_once(http):
    for number in range(5):
        product(http, f"page{number}")
    whole = [each["id"] for each in log(http, pageSize=100)]
    seen, token = [], None
    while True:
        more = {} if token is None else {"nextToken": token}
        answer = http.get("/auditlog", params={"pageSize": 7, **more}).json()
        seen += [each["id"] for each in answer["data"]]
        token = answer.get("nextToken")
        if token is None:
            break

    assert len(seen) == len(set(seen))
    assert seen[:100] == whole


def test_what_people_do_to_bills_and_ask_for_is_in_the_log(tmp_path):
    with home_with_bills(tmp_path / "home") as home:
        bill(home.organization, Month.parse("2026-09"), approve=True, author="test")
        wanted = AuditFilter(authors=["test"], kinds=["Bill", "Run"])
        found = audit_log(home.organization, wanted, Page(10))["data"]

    assert sorted((each["kind"], each["action"], each["name"]) for each in found) == [
        ("bills", "approved", "acme"),
        ("bills", "approved", "bolt"),
        ("runs", "begun", "bill"),
    ]


def test_every_act_on_a_bill_stays_in_the_log_with_its_month_amount_and_reason(tmp_path):
    with home_with_bills(tmp_path / "home") as home:
        organization, clock = home.organization, home.clock
        bill(organization, Month.parse("2026-09"), author="USER_ada")
        [acme, bolt] = (find_bills(organization, [code, "2026-09"])[0] for code in ("acme", "bolt"))

        def act(function, *arguments, author="USER_ada"):
            clock.time += timedelta(minutes=1)
            return function(organization, author, *arguments)

        act(set_status, acme, BillStatus.APPROVED)
        act(set_status, acme, BillStatus.PENDING, author="USER_eve")
        act(set_status, acme, BillStatus.APPROVED)
        line = get_bill(organization, acme)["lineItems"][0]
        memo = {
            "amount": Decimal("2.50"),
            "description": "Outage",
            "productId": line["productId"],
            "accountingProductId": line["productId"],
            "referencedBillId": acme,
            "referencedLineItemId": line["id"],
            "servicePeriodStartDate": "2026-09-14T00:00:00Z",
            "servicePeriodEndDate": "2026-09-15T00:00:00Z",
        }
        made = act(create_memo, MemoRef(CreditLineItem, acme), memo, author="USER_eve")
        act(delete_memo, MemoRef(CreditLineItem, acme, made["id"]))
        act(set_status, acme, BillStatus.APPROVED)
        act(lock_bill, acme)
        act(set_status, bolt, BillStatus.APPROVED)
        act(delete_bill, bolt, author="USER_eve")
        clock.time += timedelta(days=organization.settings.event_days + 1)
        forget_events(organization)
        wanted = AuditFilter(kinds=["Bill"])
        found = list(reversed(audit_log(organization, wanted, Page(50))["data"]))

        with organization.reading() as reader:
            makers = [each.modified_by for each in list_versions(reader, acme)]

    assert makers == ["USER_ada", "USER_eve", "USER_ada"]
    said = [
        (each["name"], each["period"], each["by"], each["action"], each["amount"]) for each in found
    ]
    ada, eve, total = "USER_ada", "USER_eve", Decimal("73.50")
    assert [each[2:] for each in said if each[0] == "acme"] == [
        (ada, "approved", total),
        (eve, "unapproved", total),
        (ada, "approved", total),
        (eve, "credited", Decimal("2.50")),
        (ada, "lineRemoved", Decimal("2.50")),
        (ada, "approved", total),
        (ada, "locked", total),
    ]
    assert [each[2:4] for each in said if each[0] == "bolt"] == [
        (ada, "approved"),
        (eve, "deleted"),
    ]
    assert {each[1] for each in said} == {"2026-09"}
    assert [each["reason"] for each in found if "reason" in each] == [
        "Outage, about line 1, Sent"
    ] * 2


def test_a_calculation_is_in_the_log_with_what_the_bill_came_to_by_it(tmp_path):
    with home_with_bills(tmp_path / "home") as home:
        totals = []
        for number in range(3):
            home.ingest(f"{number}.csv", HEADER + csv_row(f"more-{number}", gb=f"{number + 1}"))
            home.clock.time += timedelta(minutes=1)
            bill(home.organization, Month.parse("2026-09"), author="USER_ada")
            [acme] = find_bills(home.organization, ["acme", "2026-09"])
            totals.append(Decimal(get_bill(home.organization, acme)["billTotal"]))
        wanted = AuditFilter(kinds=["Bill"], entity_id=acme)
        found = audit_log(home.organization, wanted, Page(50, oldest_first=True))["data"]

    assert len(set(totals)) == 3
    assert [(each["action"], each["amount"]) for each in found] == [
        ("recalculated", total) for total in totals[1:]
    ]


@pytest.mark.long
def test_a_reopened_month_is_in_the_log_with_its_reason(tmp_path):
    with a_month_to_close(tmp_path / "home") as world:
        world.look()
        world.approve()
        world.reopen("A price was wrong")
        wanted = AuditFilter(kinds=["Closing"])
        found = audit_log(world.home.organization, wanted, Page(5))["data"]

    assert [(each["action"], each["name"], each["reason"]) for each in found] == [
        ("reopened", str(world.month), "A price was wrong")
    ]


def test_a_top_up_is_in_the_log_with_its_amount(http):
    account = {"code": "acme", "name": "Acme", "emailAddress": "a@b.example"}
    balance = {"code": "prepaid", "name": "Prepaid", "currency": "USD"}
    balance |= {"accountId": posted(http, "/accounts", account)["id"]}
    balance |= {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    made = posted(http, "/balances", balance)
    kind = posted(http, "/picklists/transactiontypes", {"code": "top_up", "name": "Top up"})
    amount = {"amount": 12.5, "transactionTypeId": kind["id"], "description": "Paid by card"}
    posted(http, f"/balances/{made['id']}/transactions", amount)
    [found] = [each for each in log(http, entityId=made["id"]) if each["action"] == "toppedUp"]

    assert (found["kind"], found["name"], found["amount"]) == ("balances", "prepaid", 12.5)
    assert found["reason"] == "Paid by card"


def test_the_log_leaves_out_what_one_may_not_read(server, http):
    made, hidden = product(http, "seen"), product(http, "hidden")
    with client_with(server, http, allow("config:retrieve")) as other:
        assert other.get("/auditlog").status_code == httpx.codes.FORBIDDEN
    rights = (
        allow("audit:retrieve"),
        allow("config:retrieve", "config:product/*"),
        deny("config:retrieve", f"config:product/item/{hidden['id']}"),
    )
    with client_with(server, http, *rights) as other:
        assert [each["name"] for each in log(other, entityId=made["id"])] == ["seen"]
        assert "byName" not in log(other, entityId=made["id"])[0]
        assert log(other, entityId=hidden["id"]) == []
        assert {each["kind"] for each in log(other)} == {"products"}


@pytest.mark.sees("ListPermissionPolicyPrincipals")
def test_a_policy_says_who_has_it(http):
    made = posted(http, "/permissionpolicies", {"name": "p", "permissionPolicy": [allow()]})
    robot, *_ = service_user(http, made["id"])
    path = f"/permissionpolicies/{made['id']}/principals"
    [held] = http.get(path).json()["data"]
    posted(http, f"/permissionpolicies/{made['id']}/removefromserviceuser", {"principalId": robot})

    assert (held["principalType"], held["principalId"]) == (PrincipalType.SERVICEUSER, robot)
    assert http.get(path).json()["data"] == []


@pytest.mark.sees("ListUserSessions", "EndUserSessions")
def test_a_user_is_signed_out_of_one_organization_alone(server, http):
    state = server.stores.state
    other = initialize(server.settings, "Other").org_id
    all_ = [policy(state, server.org_id, allow())]
    id_ = join(state, server.org_id, "eve@example.com", permissionPolicyIds=all_)
    join(state, other, "eve@example.com", permissionPolicyIds=[policy(state, other, allow())])
    session = login.session_of(state, login.sign_in(state, "eve@example.com", PASSWORD))
    here, there = (token_of_person(server, session, org) for org in (server.org_id, other))
    alive = http.get(f"/users/{id_}/sessions").json()["data"]

    ended = posted(http, f"/users/{id_}/sessions/end")

    assert len(alive) == ended["ended"] == 1
    assert http.get(f"/users/{id_}/sessions").json()["data"] == []
    with server.http(here) as client:
        wait_until(lambda: client.get("/users/me").status_code == httpx.codes.UNAUTHORIZED)
    with pytest.raises(Unauthorized, match="sign in again"):
        token_of_person(server, session)
    # The other organization notices nothing, and here the password opens again.
    answer = httpx.get(
        f"{server.url}/organizations/{other}/users/me",
        headers={"Authorization": f"Bearer {there}"},
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    again = login.session_of(state, login.sign_in(state, "eve@example.com", PASSWORD))
    with server.http(token_of_person(server, again)) as client:
        assert client.get("/users/me").status_code == httpx.codes.OK


@pytest.mark.sees("CreatePasswordLink")
def test_a_link_to_a_new_password_works_once_ends_sign_ins_and_is_logged(server, http):
    state = server.stores.state
    id_ = join(state, server.org_id, "lost@example.com")
    secret = login.sign_in(state, "lost@example.com", PASSWORD)
    first, last = (posted(http, f"/users/{id_}/password/link") for _ in range(2))
    links = [each["link"].partition("token=")[2] for each in (first, last)]
    chosen = "a password that is new to all"

    assert first["dtExpiry"] <= last["dtExpiry"]
    with pytest.raises(Unauthorized, match="the link is not valid"):
        users.follow(state, links[0], chosen)
    assert users.follow(state, links[1], chosen) == id_
    assert login.session_of(state, secret) is None
    assert login.sign_in(state, "lost@example.com", chosen)
    with pytest.raises(Unauthorized, match="the link is not valid"):
        users.follow(state, links[1], chosen)
    found = log(http, kinds="passwordLinks", entityId=id_)
    assert [(each["action"], each["entityId"], each["name"]) for each in found] == [
        ("used", id_, "lost@example.com"),
        ("created", id_, "lost@example.com"),
        ("created", id_, "lost@example.com"),
    ]
    assert found[0]["by"] == f"USER_{id_}"
    assert found[1]["by"].startswith("SERVICE_USER_")
    assert posted(http, f"/users/{server.org_id}/password/link", status=404)
    with client_with(server, http, allow("config:retrieve")) as reader:
        assert reader.post(f"/users/{id_}/password/link").status_code == httpx.codes.FORBIDDEN


def test_nobody_sees_a_link_that_leads_further_than_they_may_go(server, http):
    state = server.stores.state
    other = initialize(server.settings, "Elsewhere").org_id
    everything = [policy(state, server.org_id, allow())]
    plain = join(state, server.org_id, "plain@example.com")
    chief = join(state, server.org_id, "chief@example.com", permissionPolicyIds=everything)
    both = join(state, server.org_id, "both@example.com")
    join(state, other, "both@example.com")

    assert "link" in posted(http, f"/users/{chief}/password/link")
    # Whoever had it could enter the other organization, too.
    assert "link" not in posted(http, f"/users/{both}/password/link")
    may = [allow(each, "config:user/*") for each in ("config:retrieve", "config:update")]
    with client_with(server, http, *may) as helper:
        assert "link" in posted(helper, f"/users/{plain}/password/link")
        assert "link" not in posted(helper, f"/users/{chief}/password/link")
    [letter] = [
        each
        for each in (server.settings.home / "outbox").iterdir()
        if "chief@example.com" in each.read_text()
    ][-1:]
    assert "/oauth/password?token=" in letter.read_text().replace("=\n", "").replace("=3D", "=")


def token_of_person(server, session, org_id=None):
    """A token of a sign-in as the console gets one."""
    state, verifier, back = server.stores.state, "v" * 64, f"{server.url}{CALLBACK}"
    challenge = login.challenge_of(verifier)
    code = login.new_code(state, session, org_id or server.org_id, back, challenge)
    asked = {
        "grant_type": "authorization_code",
        "client_id": CLIENT,
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": back,
    }
    given = httpx.post(f"{server.url}/oauth/token", data=asked)
    assert given.status_code == httpx.codes.OK, given.text
    return given.json()["access_token"]


@pytest.mark.sees("EndMySessions")
def test_a_person_signs_out_everywhere(server):
    rights = [allow("config:retrieve", "config:meter/*")]
    id_ = policy(server.stores.state, server.org_id, *rights)
    join(server.stores.state, server.org_id, "bob@example.com", permissionPolicyIds=[id_])
    state = server.stores.state
    secrets = [login.sign_in(state, "bob@example.com", PASSWORD) for _ in range(2)]
    tokens = [token_of_person(server, login.session_of(state, each)) for each in secrets]
    with server.http(tokens[0]) as client:
        ended = posted(client, "/users/me/sessions/end")

    assert ended["ended"] == 2
    for token in tokens:
        with server.http(token) as client:
            # Permissions that a server knows may be some seconds old.
            wait_until(lambda: client.get("/users/me").status_code == httpx.codes.UNAUTHORIZED)


def test_a_program_has_no_sessions_to_end(http):
    refused = posted(http, "/users/me/sessions/end", status=httpx.codes.NOT_FOUND)

    assert "delete the access keys instead" in refused["message"]


def test_an_invitation_has_its_link_once_if_no_mail_is_sent(http):
    asked = {"email": "new@example.com", "firstName": "New", "lastName": "Person"}
    made = posted(http, "/invitations", asked)

    assert "/oauth/password?token=" in made["link"]
    assert "link" not in http.get(f"/invitations/{made['id']}").json()


def test_what_follows_from_an_invitation_is_the_act_of_who_followed_it(server, http):
    state = server.stores.state
    id_ = join(
        state,
        server.org_id,
        "kim@example.com",
        permissionPolicyIds=[policy(state, server.org_id, allow("config:retrieve"))],
    )
    [granted] = [each for each in log(http, kinds="policyGrants") if each["by"].endswith(id_)]
    assert (granted["action"], granted["by"]) == ("granted", f"USER_{id_}")
