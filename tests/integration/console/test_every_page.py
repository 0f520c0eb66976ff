"""Every page that a link leads to: for everybody who may sign in, with the data of the sample."""

import re
from datetime import timedelta
from html import unescape
from typing import NamedTuple

import pytest
from argon2 import PasswordHasher

from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.model.values.period import format_instant
from meterlake.pipeline.access import login
from meterlake.pipeline.access.customer_links import create_link
from meterlake.pipeline.billing import bills as bill_verbs
from meterlake.stores.state.core.pages import Page as Part
from tests.console_world import FormReader, sample_console, shape_of
from tests.people import allow, deny

pytestmark = pytest.mark.long

PEOPLE = {
    "administrator": [allow()],
    "reader": [
        allow("config:retrieve"),
        allow("measurements:retrieve"),
        allow("analytics:query"),
        allow("audit:retrieve"),
    ],
    "analyst": [allow("analytics:query"), allow("measurements:retrieve")],
    "catalog": [allow("config:retrieve", "config:product", "config:meter", "config:aggregation")],
    "finance": [
        allow("config:retrieve"),
        allow("config:update", "config:bill"),
        deny("all", "config:permissionpolicy", "config:user", "config:accesskey"),
    ],
    "nobody": [],
}
REFUSED = 403
# A number with its unit, before an amount: the quantity of a line.
QUANTITY = (
    r'value="([^"]*)" title="[^"]*">[^<]*</data></td>\s*<td>([^<]*)</td>\s*<td class="number"><data'
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        with sample_console(tmp_path_factory.mktemp("every")) as found:
            for name, statements in PEOPLE.items():
                found.join(f"{name}@example.com", *statements)
            yield found


class Page(NamedTuple):
    """A page that a link leads to."""

    address: str
    status: int
    html: str
    text: str


@pytest.fixture(scope="module")
def pages(world):
    """The pages to which links lead a person, who follows each of them once."""
    found = {}

    def open_pages(name):
        if name not in found:
            browser = world.browser(f"{name}@example.com")
            found[name] = [
                Page(address, browser.page.status_code, browser.page.text, browser.text)
                for address in browser.crawl()
            ]
        return found[name]

    return open_pages


@pytest.mark.parametrize("name", [name for name in PEOPLE if name != "nobody"])
def test_no_link_leads_to_what_is_refused_missing_or_broken(pages, name):
    seen = {shape_of(page.address) for page in pages(name)}

    assert [(page.address, page.text[:300]) for page in pages(name) if page.status != 200] == []
    assert len(seen) >= 2


def test_who_may_do_nothing_sees_no_room(pages):
    [first] = pages("nobody")

    assert first.status == REFUSED
    assert re.findall(r'<li><a href="/console', first.html) == []


def test_every_form_has_the_secret_of_the_session_and_a_key_of_its_own(pages):
    bare, keyless, keys = [], [], []
    for page in pages("administrator"):
        forms = re.findall(r"<form\b[^>]*method=.post.*?</form>", page.html, re.DOTALL)
        bare += [(page.address, form[:200]) for form in forms if 'name="csrf"' not in form]
        acting = [form for form in forms if 'action="/console/sign-out"' not in form]
        keyless += [(page.address, form[:200]) for form in acting if 'name="once"' not in form]
        keys += re.findall(r'name="once" value="([^"]{20,})"', page.html)

    assert bare == []
    assert keyless == []
    assert len(keys) == len(set(keys)) > 20


# What no language changes: commands and codes, what one types, the version at the foot.
_AS_WRITTEN = re.compile(r"<(script|pre|code|textarea|footer|head)\b.*?</\1>|<!--.*?-->", re.DOTALL)
_GERMAN_MONTH = re.compile(r"\b(Januar|Februar|März|Juni|Juli|Oktober|Dezember|Okt|Dez)\b")
_POINT = re.compile(r"(?<![\w.,/+:-])\d+\.(?:\d{1,2}|\d{4,})(?![\w.,:]|-\d)")
_PLACEHOLDER = re.compile(
    r"\{(month|customer|seller|invoice|number|currency|total|date|due|period|from|to)\}"
)
_UCUM = re.compile(r"\{\w+\}|\b[kMGT]i?By\b")


def test_words_are_those_of_the_page_and_numbers_those_of_the_language(world):
    """Months are English on English pages, and 13,7 % has a comma in German, in charts and choices, too."""
    german = world.browser("administrator@example.com")
    german.client.headers["Accept-Language"] = "de-DE,de;q=0.9"
    months, points, codes, read = [], [], [], 0
    for address in german.crawl():
        if german.page.status_code != 200:
            continue
        read += 1
        shown = unescape(re.sub(r"<[^>]*>", " ", _AS_WRITTEN.sub(" ", german.page.text)))
        # What stands for what an e-mail says, such as {invoice}, has braces of its own.
        shown = _PLACEHOLDER.sub(" ", shown)
        for found, wrong in ((months, _GERMAN_MONTH), (points, _POINT), (codes, _UCUM)):
            found += [
                (address, shown[max(0, each.start() - 60) : each.end() + 20])
                for each in wrong.finditer(shown)
            ]

    assert read > 100
    assert months == []
    assert points == []
    assert codes == []


NUMBER_FIELD = re.compile(r'<input\b[^>]*(?:inputmode="(?:decimal|numeric)"|type="number")[^>]*>')


def test_every_form_shows_and_takes_numbers_as_the_language_writes_them(world):
    """In German 1,5 has a comma, and 1.234 may be two numbers, which every form has to ask about."""
    german = world.browser("administrator@example.com")
    german.client.headers["Accept-Language"] = "de"
    shown, taken, asked = {}, {}, set()
    for address in german.crawl():
        page = german.page
        for html in re.findall(r"<form\b.*?</form>", page.text, re.DOTALL):
            fields = [
                dict(re.findall(r'([a-z]+)="([^"]*)"', each)) for each in NUMBER_FIELD.findall(html)
            ]
            for each in fields:
                if "." in each["value"]:
                    shown[address, each["name"]] = each["value"]
                place = shape_of(address), re.sub(r"\d+", "0", each["name"])
                if place not in asked:
                    asked.add(place)
                    answer = send_number(german, address, html, each["name"])
                    if "it may mean 1,234 or 1234" not in unescape(answer.text):
                        taken[place] = answer.text[-300:]
        assert "ith a point" not in page.text, address
        german.page = page

    assert (shown, taken) == ({}, {})
    assert {
        ("/console/bills/{}/memos/credit/new", "amount"),
        ("/console/bills/{}/memos/debit/new", "amount"),
        ("/console/catalogue/pricings/new", "pricingBands.0.unitPrice"),
        ("/console/catalogue/raise-prices", "by"),
    } <= asked


def send_number(browser, address, html, name):
    """The answer to a form with a number that may be two in one field."""
    forms = FormReader()
    forms.feed(html.replace('method="get"', 'method="post"'))
    fields = {**forms.found[0], name: ["1.234"]}
    if 'method="get"' in html:
        return browser.client.get(address.partition("?")[0], params=fields)
    return browser.client.post(address, data=fields)


def test_no_page_shows_a_bare_id_as_the_name_of_something(pages):
    shown = {}
    for page in pages("administrator"):
        if page.address.startswith("/console/rejected"):
            continue  # A rejected row has the uid that its sender gave it.
        text = re.sub(
            r"<(details|code|pre|option|textarea)\b.*?</\1>", "", page.html, flags=re.DOTALL
        )
        text = unescape(re.sub(r"<[^>]*>", " ", text))
        if found := re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
            shown[page.address] = found[:3]

    assert shown == {}


def test_a_customer_reads_the_quantities_that_finance_reads(world):
    ada = world.browser("administrator@example.com")
    organization = world.home.organization
    with organization.reading() as reader:
        account = reader.find(Account, "nordwind-logistics").id
    [bill] = bill_verbs.list_bills_of_account(organization, account, Part(1))["data"]
    bill_verbs.set_status(organization, "test", bill["id"], BillStatus.APPROVED)
    end = format_instant(world.home.stores.now() + timedelta(days=30))
    _, token = create_link(organization, "test", account, {"name": "a", "dtExpiry": end})

    ada.go(f"/customer/{token}/bills/{bill['id']}")
    theirs = sorted(re.findall(QUANTITY, ada.page.text))
    ada.go(f"/console/bills/{bill['id']}")
    assert theirs
    assert theirs == sorted(re.findall(QUANTITY, ada.page.text))


def test_who_may_only_read_sees_no_form_by_its_address_either(world, pages):
    reader = world.browser("reader@example.com")
    forms = [
        page.address
        for page in pages("administrator")
        if re.search(r"/(new|edit|delete|attach|file)$", page.address.partition("?")[0])
    ]
    shown = []
    for address in forms:
        reader.go(address)
        if reader.page.status_code != REFUSED:
            shown.append(address)

    assert len(forms) > 20
    assert shown == []
