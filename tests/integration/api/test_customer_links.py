"""Links to the page of one customer: what they lead to, and all that they do not."""

import json
from datetime import timedelta
from decimal import Decimal

import httpx
import pytest
from sqlalchemy import update

from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account, CustomerLink
from meterlake.model.values import wire
from meterlake.model.values.period import Month, format_instant
from meterlake.pipeline.access.users import needs_password
from meterlake.pipeline.billing import bills as bill_verbs
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stores.state.access.access_tables import ONE_TIME_TOKEN
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.core.pages import Page
from tests.bills import price_egress, subscribe, use
from tests.homes import ACCOUNTS, CALLS, EGRESS, Home, configure
from tests.organizations import Clock
from tests.served import served

NOBODY = "00000000-0000-4000-8000-000000000000"
DEAD = "the link was not made here, has ended, or was revoked; ask for a new one"
SEPTEMBER = Month(2026, 9)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("links") / "home", limit_config=False) as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(found.organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", "bolt")
        use(home, ("1", "acme", 40), ("2", "acme", "2.5"), ("3", "bolt", 200))
        bill(found.organization, SEPTEMBER)
        yield found


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture(scope="module")
def visitor(server):
    """Somebody without any token of the API."""
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def ids(server):
    with server.organization.reading() as reader:
        return {each.entity.code: each.id for each in reader.all(Account)}


@pytest.fixture(scope="module")
def approved(server, ids):
    """The approved bills of both customers, by account."""
    found = {}
    for code, id_ in ids.items():
        page = bill_verbs.list_bills(
            server.organization, BillFilters(account_ids=(id_,)), Page(10), lines=False
        )
        [one] = page["data"]
        bill_verbs.set_status(server.organization, "test", one["id"], BillStatus.APPROVED)
        found[code] = one["id"]
    return found


def end_of(server, **time):
    return format_instant(server.stores.now() + timedelta(**time))


def create(server, http, id_, **fields):
    document = {"name": "Portal", "dtExpiry": end_of(server, days=30), **fields}
    answer = http.post(f"/accounts/{id_}/customerlinks", json=document)
    assert answer.status_code == 200, answer.text
    return answer.json()


def read(visitor, token, path=""):
    answer = visitor.get(f"/customerpages/{token}{path}")
    assert answer.status_code == 200, answer.text
    assert "set-cookie" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    return wire.loads(answer.content)


# --- Another account's --------------------------------------------------------------------------


@pytest.mark.sees("GetCustomerPageBill", "GetCustomerPageDocument", "ListCustomerPageBills")
def test_a_link_leads_to_the_bills_of_its_customer_and_to_no_other(
    server, http, visitor, ids, approved
):
    token = create(server, http, ids["acme"])["token"]

    listed = read(visitor, token, "/bills")["data"]
    assert [each["id"] for each in listed] == [approved["acme"]]
    own = read(visitor, token, f"/bills/{approved['acme']}")
    assert Decimal(own["billTotal"]) == Decimal("73.5")
    document = visitor.get(f"/customerpages/{token}/bills/{approved['acme']}/document")
    assert document.content.startswith(b"%PDF")
    for other in (approved["bolt"], NOBODY, "x", f"..%2f{approved['bolt']}"):
        for path in (f"/bills/{other}", f"/bills/{other}/document"):
            answer = visitor.get(f"/customerpages/{token}{path}")
            assert answer.status_code == 404, path
            assert "73.5" not in answer.text


def test_the_bill_that_nobody_approved_is_not_shown(server, http, visitor, ids, approved):
    token = create(server, http, ids["acme"])["token"]
    organization, id_ = server.organization, approved["acme"]
    bill_verbs.set_status(organization, "test", id_, BillStatus.PENDING)
    try:
        assert read(visitor, token, "/bills") == {"data": []}
        assert visitor.get(f"/customerpages/{token}/bills/{id_}").status_code == 404
        assert visitor.get(f"/customerpages/{token}/bills/{id_}/document").status_code == 404
    finally:
        bill_verbs.set_status(organization, "test", id_, BillStatus.APPROVED)


def test_a_token_of_a_link_opens_nothing_else(server, http, visitor, ids):
    token = create(server, http, ids["acme"])["token"]
    api = f"/organizations/{server.org_id}"

    for path in (f"{api}/bills", f"{api}/accounts/{ids['acme']}", f"{api}/users/me/operations"):
        answer = visitor.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401, path
    with pytest.raises(Exception, match="link"):
        needs_password(server.stores.state, token)
    assert visitor.get(f"/customerpages/{token}/accounts").status_code == 404


def test_a_link_of_one_account_is_not_found_with_another(server, http, ids):
    made = create(server, http, ids["acme"])

    assert http.get(f"/accounts/{ids['bolt']}/customerlinks").json() == {"data": []}
    for method, path in (("POST", "/revoke"), ("GET", ""), ("DELETE", "")):
        place = f"/accounts/{ids['bolt']}/customerlinks/{made['id']}{path}"
        assert http.request(method, place).status_code == 404, place
    answer = http.post(f"/accounts/{NOBODY}/customerlinks", json={"name": "x"})
    assert answer.status_code in {400, 404}


# --- What works ---------------------------------------------------------------------------------


@pytest.mark.sees(
    "CreateCustomerLink", "GetCustomerPage", "GetCustomerPageUsage", "GetCustomerPageSpend"
)
def test_a_link_shows_usage_by_day_what_is_spent_and_what_is_left(server, http, visitor, ids):
    configure(
        server.organization,
        balances=[
            {
                "code": "ahead",
                "name": "Paid ahead",
                "accountId": "acme",
                "currency": "USD",
                "startDate": "2026-01-01T00:00:00Z",
                "endDate": "2028-01-01T00:00:00Z",
            }
        ],
    )
    made = create(server, http, ids["acme"], allowedOrigins=["https://portal.acme.example"])
    token = made["token"]

    assert made["url"] == f"{server.url}/customer/{token}"
    found = read(visitor, token)
    [sent] = read(visitor, token, "/usage?month=2026-09")["aggregations"]
    assert (found["code"], found["allowedOrigins"]) == ("acme", ["https://portal.acme.example"])
    assert [(each["date"], Decimal(each["quantity"])) for each in sent["days"]] == [
        ("2026-09-03", Decimal("42.5"))
    ]
    assert [each["code"] for each in found["balances"]] == ["ahead"]
    [spent] = read(visitor, token, "/spend")["bills"]
    assert (spent["currency"], Decimal(spent["billTotal"])) == ("USD", Decimal(31))
    own = http.get(f"/accounts/{ids['acme']}/spend").json()
    assert [Decimal(str(each["billTotal"])) for each in own["bills"]] == [Decimal(31)]
    text = json.dumps([found, spent], default=str)
    for secret in ("createdBy", "lastModifiedBy", server.org_id, ids["bolt"], "bolt"):
        assert secret not in text


@pytest.mark.sees("GetAccountSpend")
def test_what_an_account_has_spent_says_its_lines(http, ids):
    found = wire.loads(http.get(f"/accounts/{ids['acme']}/spend").content)

    [open_] = found["bills"]
    assert found["failures"] == []
    lines = {
        each["lineItemType"]: Decimal(each["convertedSubtotal"]) for each in open_["lineItems"]
    }
    assert lines["STANDING_CHARGE"] == Decimal(31)
    assert http.get(f"/accounts/{NOBODY}/spend").status_code == 404


@pytest.mark.sees(
    "ListCustomerLinks", "GetCustomerLink", "DeleteCustomerLink", "RevokeCustomerLink"
)
def test_a_token_is_shown_once_and_a_revoked_or_deleted_link_is_dead(server, http, visitor, ids):
    links = f"/accounts/{ids['bolt']}/customerlinks"
    one, two = (create(server, http, ids["bolt"], name=name) for name in ("One", "Two"))
    listed = http.get(links).json()["data"]
    assert {each["name"] for each in listed} == {"One", "Two"}
    assert one["token"] not in json.dumps(listed)
    assert one["token"] not in http.get(f"{links}/{one['id']}").text
    assert read(visitor, one["token"])["code"] == "bolt"

    assert http.post(f"{links}/{one['id']}/revoke").json()["revoked"] is True
    assert http.post(f"{links}/{one['id']}/revoke").status_code == 409
    assert http.delete(f"{links}/{two['id']}").status_code == 200
    unknown = visitor.get("/customerpages/unknown")
    assert unknown.status_code == 401
    assert unknown.json() == {"message": DEAD}
    for made in (one, two):
        answer = visitor.get(f"/customerpages/{made['token']}")
        assert (answer.status_code, answer.content) == (401, unknown.content)
    http.delete(f"{links}/{one['id']}")


def test_a_link_that_has_ended_is_dead(server, http, visitor, ids):
    by_token, by_link = (create(server, http, ids["acme"]) for _ in range(2))
    past = server.stores.now() - timedelta(seconds=1)
    with server.organization.transaction("test") as transaction:
        ended = update(ONE_TIME_TOKEN).where(ONE_TIME_TOKEN.c.subject_id == by_token["id"])
        transaction.connection.execute(ended.values(expires=past))
        link = transaction.get(CustomerLink, by_link["id"])
        changed = link.entity.model_copy(update={"dt_expiry": past})
        transaction.update(link.id, link.version, changed)

    for made in (by_token, by_link):
        answer = visitor.get(f"/customerpages/{made['token']}")
        assert (answer.status_code, answer.json()) == (401, {"message": DEAD})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dtExpiry": "2020-01-01T00:00:00Z"}, "dtExpiry"),
        ({"dtExpiry": "2099-01-01T00:00:00Z"}, "it must be an instant from now until"),
        ({"dtExpiry": None}, "dtExpiry is required"),
        ({"allowedOrigins": ["https://a.example/path"]}, "the origin of a page"),
        ({"allowedOrigins": ["https://a.example; script-src *"]}, "the origin of a page"),
        ({"allowedOrigins": ["*"]}, "the origin of a page"),
        ({"revoked": True}, "a new link works"),
        ({"accountId": NOBODY}, "as in the path"),
    ],
)
def test_a_link_that_would_be_none_is_refused(server, http, ids, fields, said):
    document = {"name": "Portal", "dtExpiry": end_of(server, days=1), **fields}
    answer = http.post(f"/accounts/{ids['acme']}/customerlinks", json=document)

    assert answer.status_code == 400
    assert said in answer.json()["message"]


def test_who_tries_many_links_has_to_wait(tmp_path):
    with served(tmp_path / "home") as found, httpx.Client(base_url=found.url) as client:
        answers = [client.get(f"/customerpages/guess{n}").status_code for n in range(62)]

    assert set(answers[:60]) == {401}
    assert answers[-1] == 429
