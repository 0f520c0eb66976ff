"""The customer's page: what whoever has a link sees, who may frame it, and all that it does not show."""

import re
from datetime import timedelta
from html import unescape

import httpx
import pytest
from babel import Locale

from meterlake.console.shell.page import page_text
from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account, CustomerLink
from meterlake.model.values.period import format_instant
from meterlake.pipeline.access.customer_links import create_link, revoke_link
from meterlake.pipeline.billing import bills as bill_verbs
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.core.pages import Page
from tests.console_world import MONTH, a_console
from tests.homes import configure
from tests.people import allow

ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
PORTAL = "https://portal.acme.example"
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("portal")) as found:
        configure(
            found.home.organization,
            accounts=[{"code": "acme", "name": f"Acme {ATTACK}", "emailAddress": "a@acme.example"}],
            balances=[
                {
                    "code": "ahead",
                    "name": f"Ahead {ATTACK}",
                    "accountId": "acme",
                    "currency": "USD",
                    "startDate": "2026-01-01T00:00:00Z",
                    "endDate": "2028-01-01T00:00:00Z",
                }
            ],
        )
        found.join("eve@example.com", allow())
        yield found


@pytest.fixture(scope="module")
def ids(world):
    with world.home.organization.reading() as reader:
        return {code: reader.find(Account, code).id for code in ("acme", "bolt")}


@pytest.fixture(scope="module")
def approved(world, ids):
    """The approved bills of both customers, by account."""
    found = {}
    for code, id_ in ids.items():
        filters, page = BillFilters(account_ids=(id_,)), Page(10)
        [one] = bill_verbs.list_bills(world.home.organization, filters, page, lines=False)["data"]
        bill_verbs.set_status(world.home.organization, "test", one["id"], BillStatus.APPROVED)
        found[code] = one["id"]
    return found


@pytest.fixture(scope="module")
def visitor(world):
    """Somebody who never signed in."""
    with httpx.Client(base_url=world.url, follow_redirects=False) as client:
        yield client


def link(world, id_, **fields):
    """The token of a new link, and its id."""
    end = format_instant(world.home.stores.now() + timedelta(days=30))
    document = {"name": "Portal", "dtExpiry": end, **fields}
    made, token = create_link(world.home.organization, "test", id_, document)
    return token, made["id"]


def text_of(page):
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.text)).split())


def test_the_bill_of_another_customer_is_not_found(world, visitor, ids, approved):
    token, _ = link(world, ids["acme"])

    own = visitor.get(f"/customer/{token}/bills/{approved['acme']}")
    assert own.status_code == 200
    for other in (approved["bolt"], NOBODY, "x", "%2e%2e"):
        for path in (f"/bills/{other}", f"/bills/{other}/document"):
            answer = visitor.get(f"/customer/{token}{path}")
            assert answer.status_code == 404, path
            assert "bolt" not in answer.text.lower()


def test_unknown_ended_and_revoked_links_lead_to_the_same_page(world, visitor, ids):
    revoked, id_ = link(world, ids["acme"])
    revoke_link(world.home.organization, "test", ids["acme"], id_)
    ended, id_ = link(world, ids["acme"])
    with world.home.organization.transaction("test") as transaction:
        stored = transaction.get(CustomerLink, id_)
        past = stored.entity.model_copy(
            update={"dt_expiry": transaction.now - timedelta(seconds=1)}
        )
        transaction.update(stored.id, stored.version, past)
    unknown = visitor.get("/customer/unknown")

    assert unknown.status_code == 404
    assert "This link does not work" in unknown.text
    assert unknown.headers["x-frame-options"] == "DENY"
    for token in (revoked, ended, "%2e%2e", "a b"):
        for path in ("", f"/bills/{NOBODY}", f"/bills/{NOBODY}/document"):
            answer = visitor.get(f"/customer/{token}{path}")
            assert answer.content == unknown.content, (token, path)
            assert answer.status_code == 404
            assert answer.headers["content-security-policy"].endswith("frame-ancestors 'none'")


def test_the_page_shows_usage_spend_balances_and_bills_without_a_session(
    world, visitor, ids, approved
):
    token, _ = link(world, ids["acme"], allowedOrigins=[PORTAL])
    page = visitor.get(f"/customer/{token}?month={MONTH}")
    text = text_of(page)

    assert page.status_code == 200
    assert "set-cookie" not in page.headers
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert all(
        each in text for each in ("Usage in September 2026", "42.5", "Spent so far", "31.00")
    )
    assert "73.50" in text
    assert "<svg" in page.text
    assert not any(each in page.text for each in (ATTACK, "<script", "<img", "style="))
    assert "&lt;script&gt;" in page.text
    for secret in ("bolt", "console/customers", world.home.org_id):
        assert secret not in page.text.lower()
    bill = visitor.get(f"/customer/{token}/bills/{approved['acme']}")
    assert all(each in text_of(bill) for each in ("How it was priced", "42.5", "73.50"))
    document = visitor.get(f"/customer/{token}/bills/{approved['acme']}/document")
    assert document.content.startswith(b"%PDF")
    assert document.headers["referrer-policy"] == "no-referrer"


def test_only_the_origins_of_the_link_may_frame_its_pages(world, visitor, ids, approved):
    framed, _ = link(world, ids["acme"], allowedOrigins=[PORTAL, "http://localhost:3000"])
    alone, _ = link(world, ids["acme"])

    for path in ("", f"/bills/{approved['acme']}", f"/bills/{NOBODY}", "?month=soon"):
        answer = visitor.get(f"/customer/{framed}{path}")
        policy = answer.headers["content-security-policy"]
        assert policy.endswith(f"frame-ancestors {PORTAL} http://localhost:3000")
        assert "x-frame-options" not in answer.headers
        assert "script-src" not in policy
        assert policy.startswith("default-src 'none';")
        answer = visitor.get(f"/customer/{alone}{path}")
        assert answer.headers["content-security-policy"].endswith("frame-ancestors 'none'")
        assert answer.headers["x-frame-options"] == "DENY"


def test_a_session_of_the_console_changes_nothing_on_the_page(world, ids):
    token, _ = link(world, ids["acme"])
    eve = world.browser("eve@example.com")
    cookies = httpx.Cookies(eve.client.cookies)
    page = eve.client.get(f"/customer/{token}")

    assert "Ada" not in page.text
    assert httpx.Cookies(eve.client.cookies) == cookies
    assert eve.client.get("/customer/unknown").status_code == 404


def test_a_bill_that_nobody_approved_is_not_shown(world, visitor, ids, approved):
    token, _ = link(world, ids["bolt"])
    organization, id_ = world.home.organization, approved["bolt"]
    assert visitor.get(f"/customer/{token}/bills/{id_}").status_code == 200
    bill_verbs.set_status(organization, "test", id_, BillStatus.PENDING)
    try:
        assert "No bill was approved yet" in visitor.get(f"/customer/{token}").text
        assert visitor.get(f"/customer/{token}/bills/{id_}").status_code == 404
    finally:
        bill_verbs.set_status(organization, "test", id_, BillStatus.APPROVED)


def test_a_link_is_made_on_the_customers_page_shown_once_and_revoked(world, visitor):
    cobalt = {"code": "cobalt", "name": "Cobalt", "emailAddress": "a@cobalt.example"}
    configure(world.home.organization, accounts=[cobalt])
    with world.home.organization.reading() as reader:
        id_ = reader.find(Account, "cobalt").id
    eve = world.browser("eve@example.com")
    eve.go(f"/console/customers/{id_}")
    links = f"/console/customers/{id_}/links"
    assert f'href="{links}"' in eve.page.text
    eve.go(links)
    eve.press("create", name=ATTACK, days="7", origins=f"{PORTAL}\r\nhttp://localhost:3000")

    address = re.search(r'href="([^"]*/customer/[\w-]{43})"', eve.page.text)[1]
    assert f'&lt;iframe src="{address}"' in eve.page.text
    assert ATTACK not in eve.page.text
    assert "Cobalt" in visitor.get(address).text
    assert address not in (eve.go(links), eve.page.text)
    assert "Works" in eve.text
    assert "Ada Lovelace" in eve.text
    assert "You revoked the link" in eve.press("revoke")
    assert "Revoked" in eve.text
    assert not eve.offers("revoke")
    assert visitor.get(address).status_code == 404
    assert "You took the link off the list" in eve.press("forget")
    assert "No links yet" in eve.text


def test_a_refused_link_comes_back_and_readers_make_none(world, ids):
    links = f"/console/customers/{ids['acme']}/links"
    eve = world.browser("eve@example.com")
    eve.go(links)
    eve.press("create", name="Portal", days="30", origins="https://a.example/path")
    assert eve.page.status_code == 400
    assert "the origin of a page" in eve.text
    assert 'value="Portal"' in eve.page.text
    assert "https://a.example/path" in eve.page.text

    world.join("links@example.com", allow("config:retrieve"))
    reader = world.browser("links@example.com")
    reader.go(links)
    assert reader.page.status_code == 200
    assert not any(map(reader.offers, ("create", "revoke")))


def test_a_line_shows_the_units_that_are_charged():
    line = {"description": "Tokens", "lineItemType": "USAGE", "unit": "1k tokens"}
    amounts = {"quantity": "54575628", "units": "54576", "convertedSubtotal": "136.44"}
    days = {"billDate": "2026-11-01", "startDate": "2026-10-01", "endDate": "2026-11-01"}
    bill = {**days, "id": NOBODY, "billTotal": "136.44", "currency": "EUR", "timezone": "UTC"}
    text = page_text(
        "portal/bill.html",
        locale=Locale("en"),
        here="",
        customer={"name": "Acme"},
        bill={**bill, "lineItems": [line | amounts]},
    )

    assert ">54,576<" in text
    assert "54,575,628" not in text
