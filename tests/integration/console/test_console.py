"""The console as people use it: without scripts, over HTTP, with what they may do and no more."""

import csv
import hashlib
import io
import json
import re
import tomllib
from datetime import datetime
from decimal import Decimal
from html import unescape
from importlib import resources

import httpx
import pytest
from argon2 import PasswordHasher
from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.app import ROUTES
from meterlake.console.month import growth
from meterlake.console.shell import lists, session
from meterlake.console.shell import page as pages
from meterlake.model.customers.accounts import Account
from meterlake.pipeline.access import login
from meterlake.pipeline.closing import closing_requests
from tests.commands import wait_until
from tests.console_world import CONSOLE, MONTH, a_console, empty_console
from tests.homes import ACCOUNTS, configure
from tests.people import allow, deny

ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


async def _break(_: pages.Visit) -> Response:
    raise RuntimeError("a page that is broken, for whoever reads the log of this test")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Nothing that tests of it do changes a bill."""
    broken = Route(f"{CONSOLE}/broken", pages.page(_break))
    with a_console(tmp_path_factory.mktemp("console"), (broken,)) as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        found.join("catalog@example.com", allow("config:retrieve", "config:product"))
        found.join("nobody@example.com")
        yield found


@pytest.fixture
def finance(tmp_path):
    """Somebody who may do everything, in a home of her own."""
    with a_console(tmp_path) as found:
        found.join("finance@example.com", allow())
        yield found.browser("finance@example.com")


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def href(page, text):
    """Where the link with a text leads."""
    found = re.search(rf'<a [^>]*href="([^"]*)"[^>]*>\s*{re.escape(text)}\s*</a>', page)
    assert found is not None
    return found[1]


def test_a_failure_of_the_server_is_a_page_with_the_id_of_the_request(ada, caplog):
    ada.go(f"{CONSOLE}/broken")

    assert ada.page.status_code == 500
    assert ada.page.headers["content-type"].startswith("text/html")
    assert ada.page.headers["x-request-id"] in ada.text
    assert ada.page.headers["x-request-id"] in caplog.text
    assert "Nothing was changed" not in ada.text
    assert "broken, for whoever" not in ada.text


def test_the_first_page_after_the_sign_in_is_the_month(ada):
    ada.go(f"{CONSOLE}/months/{MONTH}")

    assert "September 2026" in ada.text
    assert "All 2 bills" in ada.text
    assert "Ada Lovelace" in ada.text


def test_a_total_is_of_all_bills_also_of_those_that_a_closing_does_not_list(ada, monkeypatch):
    ada.go(f"{CONSOLE}/bills?month={MONTH}")
    amounts = re.findall(r'<td class="number"><data class="number" value="([^"]*)"', ada.page.text)
    monkeypatch.setattr(closing_requests, "_BILLS_MAX", 1)
    ada.go(f"{CONSOLE}/months/{MONTH}")

    [total] = re.findall(r'class="figure"><data class="number" value="([^"]*)"', ada.page.text)
    assert len(amounts) == 2
    assert Decimal(total) == sum(map(Decimal, amounts))
    assert "Pending 2" in ada.text


def test_a_month_stands_beside_the_one_before(ada):
    ada.go(f"{CONSOLE}/months/{MONTH}")
    assert "2 bills; none in August 2026" in ada.text
    [total] = re.findall(r'class="figure"><data class="number" value="([^"]*)"', ada.page.text)
    ada.go(f"{CONSOLE}/months/2026-10")

    assert re.search(r"0 bills, -100\.0 % beside ([\d.,]+) USD in September 2026", ada.text)
    assert f'value="{total}"' in ada.page.text


@pytest.mark.parametrize(
    ("total", "before", "grown"),
    [
        ("110", "100", "10.0"),
        ("0", "3", "-100.0"),
        ("1", "3", "-66.7"),
        ("100000000000000000000", "0.000000000001", f"{10**34 - 100}.0"),
        ("5", "0", None),
    ],
)
def test_growth_is_in_percent_of_what_was_before(total, before, grown):
    found = growth(Decimal(total), Decimal(before))

    assert found == (None if grown is None else pytest.approx(Decimal(grown), rel=Decimal("1e-19")))


@pytest.mark.parametrize("month", ["october", "2026-13", "0000-01", "2026-1"])
def test_a_month_that_is_none_is_refused_in_words(ada, month):
    for page in (f"months/{month}", f"bills?month={month}"):
        ada.go(f"{CONSOLE}/{page}")
        assert ada.page.status_code == 400
        assert "it must be a year and a month such as 2026-10" in ada.text


def test_a_form_of_too_many_fields_is_refused_in_words(ada):
    ada.go(f"{CONSOLE}/bills?month={MONTH}")
    ada.page = ada.client.post(
        f"{CONSOLE}/bills/selection", data={f"f{n}": "" for n in range(3_000)}
    )

    assert ada.page.status_code == 400
    assert "it must be a form of 2000 fields or less" in ada.text


def test_a_cookie_of_another_version_asks_for_a_new_sign_in(world):
    browser = world.strange_browser()
    content = json.dumps({"name": "session", "content": {"token": "t", "later": 1}})
    name = "meterlake_console_session"
    browser.client.cookies.set(name, world.home.stores.secrets.encrypt(content))
    browser.go(f"{CONSOLE}/bills")

    assert browser.path == "/oauth/authorize"


def test_a_bill_is_approved_unapproved_and_locked(finance):
    finance.go(f"{CONSOLE}/bills?month={MONTH}")
    finance.go(re.findall(r'href="(/console/bills/[0-9a-f-]{36})"', finance.page.text)[0])
    assert "Pending" in finance.text

    assert "You approved the bill." in finance.press("approve")
    assert "You approved the bill." not in finance.go(finance.path)
    assert "You took the approval back." in finance.press("unapprove")
    finance.press("approve")
    asked = finance.press("lock")
    assert "Lock 1 bill for ever?" in asked
    assert re.search(r"[\d.]+ USD 1 bill", asked)
    assert not finance.client.get(finance.path).text.count(">Locked<")
    assert "You locked the bill." in finance.press("lock")
    actions = ("approve", "unapprove", "lock", "delete", "recalculate")
    assert not any(map(finance.offers, actions))


def test_ticked_bills_are_approved_at_once(finance):
    selection = f"{CONSOLE}/bills/selection"
    finance.go(f"{CONSOLE}/bills?month={MONTH}&status=PENDING")
    ids = re.findall(r'name="bill" value="([^"]*)"', finance.page.text)
    assert "No bill was ticked" in finance.send({"action": "look"}, path=selection)
    assert f"month={MONTH}" in str(finance.page.url)

    finance.go(f"{CONSOLE}/bills?month={MONTH}&status=PENDING")
    assert "2 bills" in finance.send({"action": "look", "bill": ids}, path=selection)
    assert "2 pending, 0 approved" in finance.text
    shown = finance.send({"action": "approve", "bill": ids}, path=selection)
    assert "2 bills were approved" in shown
    assert "Nothing matches" not in shown
    assert "status=" not in str(finance.page.url)
    assert f"month={MONTH}" in str(finance.page.url)


def test_numbers_are_the_digits_of_the_api_in_the_persons_way(world):
    german = world.browser("ada@example.com")
    german.client.headers["Accept-Language"] = "de-DE,de;q=0.9"
    german.go(f"{CONSOLE}/bills?month={MONTH}")

    [first, *_] = re.findall(r'value="([\d.]+)" title="\1">([^<]*)</data>', german.page.text)
    exact, shown = first
    assert shown == f"{exact:>}".replace(".", ",")


def test_a_customer_is_found_by_its_code_and_shows_plans_and_bills(ada):
    ada.go(f"{CONSOLE}/search?q=acme")

    assert ada.path.startswith(f"{CONSOLE}/customers/")
    assert "Acme" in ada.text
    assert "in force" in ada.text
    assert re.search(r'href="/console/bills/[0-9a-f-]{36}"', ada.page.text)


def test_the_only_customer_that_a_search_finds_opens_at_once(ada):
    ada.go(f"{CONSOLE}/search?q=acm")

    assert ada.path.startswith(f"{CONSOLE}/customers/")
    assert "Acme" in ada.text


def test_each_number_of_a_bill_says_where_it_comes_from(ada):
    ada.go(f"{CONSOLE}/bills?month={MONTH}")
    ada.go(re.findall(r'href="(/console/bills/[0-9a-f-]{36})"', ada.page.text)[0])
    ada.go(href(ada.page.text, "Where the numbers come from"))

    assert "the bill comes to the same" in ada.text
    assert "Usage: Sent" in ada.text
    assert "USAGE" not in ada.text


@pytest.mark.parametrize("asked", ["nothing-like-this", "%3Cb%3E", "a~b:c%26d", "%00"])
def test_a_search_that_finds_nothing_says_so(ada, asked):
    ada.go(f"{CONSOLE}/search?q={asked}")

    assert ada.page.status_code in {200, 400}
    assert "Nothing found" in ada.text or "not allowed" in ada.text


# --- Who may do what ----------------------------------------------------------------------------


def test_who_may_only_read_sees_no_button(world):
    reader = world.browser("reader@example.com")
    reader.go(f"{CONSOLE}/months/{MONTH}")
    assert not any(map(reader.offers, ("calculate", "review", "approve", "reject", "reopen")))
    reader.go(f"{CONSOLE}/bills?month={MONTH}")
    assert not reader.offers("approve")
    reader.go(re.findall(r'href="(/console/bills/[0-9a-f-]{36})"', reader.page.text)[0])
    assert 'name="action"' not in reader.page.text


def test_what_the_api_refuses_a_page_refuses_in_its_words(world):
    catalog = world.browser("catalog@example.com")
    for path in ("bills", "customers", f"months/{MONTH}"):
        assert f'href="{CONSOLE}/{path}"' not in catalog.page.text
        catalog.go(f"{CONSOLE}/{path}")
        assert catalog.page.status_code == 403
        assert "no permission for config:retrieve" in catalog.text


def test_an_action_that_is_not_offered_is_refused_and_changes_nothing(world):
    reader = world.browser("reader@example.com")
    reader.go(f"{CONSOLE}/bills?month={MONTH}")
    id_ = re.findall(r'href="(/console/bills/[0-9a-f-]{36})"', reader.page.text)[1]
    before = reader.go(id_)
    csrf = reader.hidden()["csrf"]
    reader.page = reader.client.post(id_, data={"csrf": csrf, "action": "delete"})

    assert reader.page.status_code == 403
    assert reader.go(id_) == before


def test_who_may_do_nothing_is_told_so(world):
    nobody = world.browser("nobody@example.com")

    assert nobody.page.status_code == 403
    assert "no permission policy allows you anything" in nobody.text


def test_a_right_that_is_denied_is_not_offered(world):
    world.join("almost@example.com", allow(), deny("config:delete", "config:bill"))
    almost = world.browser("almost@example.com")
    almost.go(f"{CONSOLE}/bills?month={MONTH}")
    pages = re.findall(r'href="(/console/bills/[0-9a-f-]{36})"', almost.page.text)

    assert not any(almost.go(each) and almost.offers("delete") for each in pages)


# --- What keeps others out ------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["", "/bills", "/customers", f"/months/{MONTH}", "/components"])
def test_nobody_sees_a_page_without_a_sign_in(world, page):
    stranger = world.strange_browser()
    stranger.go(f"{CONSOLE}{page}")
    assert stranger.path == "/oauth/authorize"


def test_a_form_from_elsewhere_does_nothing(ada):
    ada.go(f"{CONSOLE}/bills?month={MONTH}")
    page = re.findall(r'href="(/console/bills/[0-9a-f-]{36})"', ada.page.text)[1]
    before = ada.go(page)
    evil, whole = "https://evil.example", {"action": "delete", "csrf": ada.hidden()["csrf"]}
    own = str(ada.page.url)
    for data, headers in (
        ({"action": "delete"}, {}),
        ({"action": "delete", "csrf": "x" * 43}, {}),
        (whole, {"Origin": evil}),
        (whole, {"Origin": "null"}),
        (whole, {"Origin": evil, "Sec-Fetch-Site": "same-origin", "Referer": own}),
        (whole, {"Sec-Fetch-Site": "cross-site", "Referer": own}),
        (whole, {"Sec-Fetch-Site": "same-site"}),
        (whole, {"Sec-Fetch-Site": "none"}),
        (whole, {"Referer": f"{evil}/?{own}"}),
        (whole, {"Referer": ""}),
    ):
        ada.page = ada.client.post(page, data=data, headers=headers)
        assert ada.page.status_code == 400
        assert "the form is not from here" in ada.text
        ada.go(page)
    assert ada.text == before


@pytest.mark.parametrize("said", ["Origin", "Sec-Fetch-Site", "Referer"])
def test_a_form_from_here_counts_by_whatever_its_browser_says(ada, said):
    ada.go(f"{CONSOLE}/catalogue/debitReasons/new")
    page = str(ada.page.url)
    values = {
        "Origin": page.partition(CONSOLE)[0],
        "Sec-Fetch-Site": "same-origin",
        "Referer": page,
    }
    ada.send({**ada.hidden(), "name": said}, **{said: values[said]})

    assert f"You created the debit reason {said}" in ada.text


def test_the_cookie_is_for_the_server_alone(ada):
    cookie = next(each for each in ada.client.cookies.jar if each.name.endswith("console_session"))

    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.path == "/"
    assert "ey" not in cookie.value[:2]  # No token that anybody could read.


def test_after_the_sign_out_nothing_of_the_session_is_good_any_more(finance):
    kept = httpx.Cookies(finance.client.cookies)
    finance.go(f"{CONSOLE}/bills")
    finance.page = finance.client.post(f"{CONSOLE}/sign-out", data=finance.hidden())
    assert "You are signed out" in finance.text

    finance.client.cookies = kept

    def is_out():
        finance.go(f"{CONSOLE}/bills")
        return finance.path == "/oauth/authorize"

    wait_until(is_out)  # Servers know for some seconds whose tokens are good.


def test_no_page_has_a_script_a_style_or_anything_from_elsewhere_in_it(ada):
    nonces = set()
    for page in (f"months/{MONTH}", "bills", "customers", "components", "nowhere"):
        ada.go(f"{CONSOLE}/{page}")
        policy = ada.page.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        scripts = re.findall(
            r'<script src="([^"]*)" nonce="([^"]*)" defer></script>', ada.page.text
        )
        assert len(scripts) == ada.page.text.count("<script")
        assert all(source.startswith(f"{CONSOLE}/static/vendored/") for source, _ in scripts)
        [nonce] = {nonce for _, nonce in scripts}
        assert f"script-src 'self' 'nonce-{nonce}';" in policy
        nonces.add(nonce)
        assert not re.findall(r"<style|<[^>]*\s(?:style|on\w+)=", ada.page.text)
        assert not re.findall(r'(?:src|href)="(?![/#])[^"]*"', ada.page.text)
    assert len(nonces) == 5


def test_what_others_wrote_is_as_they_wrote_it():
    folder = resources.files("meterlake.console") / "static/vendored"
    listed = tomllib.loads((folder / "vendored.toml").read_text())
    digests = {name: found["sha256"] for name, found in listed.items()}

    assert digests == {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in folder.iterdir()
        if each.name != "vendored.toml"
    }


def test_a_part_that_asks_by_itself_does_not_keep_a_session_alive(ada, monkeypatch):
    monkeypatch.setattr(session, "_RENEWED_S", -1)
    asked = ada.client.get(f"{CONSOLE}/customers", headers={"HX-Request": "true"})
    looked = ada.client.get(f"{CONSOLE}/customers")

    assert asked.status_code == 200
    assert "set-cookie" not in asked.headers
    assert "set-cookie" in looked.headers


def test_text_of_others_is_only_text(world, ada):
    with world.home.organization.transaction("test") as transaction:
        made = transaction.create(
            Account.from_wire({"name": ATTACK, "code": "attack", "emailAddress": "a@b.example"})
        )
    for page in ("customers", f"customers/{made.id}", "search?q=attack"):
        ada.go(f"{CONSOLE}/{page}")
        assert ATTACK not in ada.page.text
        assert ATTACK in ada.text or "attack" in ada.text
        assert "<script>" not in ada.page.text


@pytest.mark.parametrize("id_", ["search%3FsearchQuery=name~a", "x%23y", "x%0Ay", "%2e%2e%3Fa"])
def test_an_id_reaches_no_other_operation(ada, id_):
    ada.go(f"{CONSOLE}/customers/{id_}")

    assert ada.page.status_code == 404
    assert "This is not here" in ada.text


def test_browsers_keep_the_files_of_pages_as_long_as_they_are_the_same(ada):
    found = set()
    for page in ("", "/data-in", "/components"):
        ada.go(f"{CONSOLE}{page}")
        found |= {
            unescape(each) for each in re.findall(r'"(/console/static/[^"]+)"', ada.page.text)
        }
    places = {each.partition("?")[0].rpartition("/")[2]: each for each in found}

    assert {"console.css", "icon.svg", "upload.js", "htmx-4.0.1.min.js"} <= places.keys()
    for place in found:
        file = ada.client.get(place)
        assert file.status_code == httpx.codes.OK
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        version = hashlib.sha256(file.content).hexdigest()[:16]
        assert place.endswith(f"?v={version}")
        # By another address it may be another one tomorrow.
        for other in (place.partition("?")[0], f"{place}0", f"{place}&v=1"):
            again = ada.client.get(other, headers={"If-None-Match": file.headers["etag"]})
            assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")
    missing = ada.client.get(f"{CONSOLE}/static/none.css?v=1")
    assert (missing.status_code, "immutable" in missing.headers.get("cache-control", "")) == (
        404,
        False,
    )


def test_every_page_has_a_name():
    names = [each.name for each in ROUTES if getattr(each, "name", "")]
    assert len(set(names)) == len(names)


def test_a_list_is_downloaded_whole_with_all_its_pages(ada, monkeypatch):
    monkeypatch.setattr(lists, "_DOWNLOAD_PAGE", 1)
    ada.go(f"{CONSOLE}/customers?format=csv")
    lines = ada.page.text.splitlines()

    named = ada.page.headers["content-disposition"]
    assert re.fullmatch(r'attachment; filename="customers_\d{4}-\d\d-\d\d\.csv"', named)
    assert lines[0] == "Name,Code,E-mail,Currency,Purchase order,Since,Id"
    assert {line.split(",")[1] for line in lines[1:]} >= {"acme", "bolt"}


def test_a_list_has_times_by_the_clocks_of_the_organization(tmp_path):
    with empty_console(tmp_path) as found:
        organization = found.home.organization
        configure(
            organization, organizationConfig={"timezone": "Asia/Tokyo"}, accounts=ACCOUNTS[:1]
        )
        with organization.reading() as reader:
            [customer] = reader.all(Account)
        found.join("tess@example.com", allow())
        tess = found.browser("tess@example.com")
        tess.go(f"{CONSOLE}/customers?format=csv")
        since = next(csv.DictReader(io.StringIO(tess.page.text)))["Since"]

    assert since.endswith("+09:00")
    assert datetime.fromisoformat(since) == customer.created


def test_what_the_api_refuses_of_a_download_is_a_page(world):
    nobody = world.browser("nobody@example.com")
    nobody.go(f"{CONSOLE}/customers?format=csv")

    assert nobody.page.status_code == 403
    assert "You may not see this" in nobody.text


def test_a_form_that_is_refused_comes_back_on_its_page(finance):
    finance.go(f"{CONSOLE}/bills?month={MONTH}")
    finance.go(re.findall(rf'href="({CONSOLE}/bills/[0-9a-f-]+)"', finance.page.text)[0])
    finance.press("approve")
    finance.press("lock")
    finance.press("lock")
    finance.page = finance.client.post(
        finance.path, data={"csrf": finance.hidden()["csrf"], "action": "unapprove"}
    )

    assert finance.page.status_code >= 400
    assert "Nothing was changed." in finance.text
    assert "Lines" in finance.text


def test_the_navigation_shows_the_rooms_that_a_person_may_enter(world):
    reader, catalog = world.browser("reader@example.com"), world.browser("catalog@example.com")
    shown = {
        name: set(re.findall(r'<li><a href="([^"]*)"', browser.go(CONSOLE) and browser.page.text))
        for name, browser in (("reader", reader), ("catalog", catalog))
    }

    assert {f"{CONSOLE}/bills", f"{CONSOLE}/customers"} <= shown["reader"]
    assert f"{CONSOLE}/bills" not in shown["catalog"]
