"""The catalogue in the console: lists, pages of entities, forms for all of them, deletions."""

import re
from decimal import Decimal
from html import unescape
from urllib.parse import quote

import pytest
from argon2 import PasswordHasher

from meterlake.console.catalogue.catalogue import KINDS
from meterlake.model.catalog.plans import Pricing
from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.homes import configure
from tests.people import allow

CATALOGUE = f"{CONSOLE}/catalogue"
ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, a_console(tmp_path_factory.mktemp("c")) as found:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        found.join("products@example.com", allow("config:retrieve", "config:product"))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def first(browser, kind, text=""):
    """Open the first entity of a list, or the one with a text."""
    browser.go(f"{CATALOGUE}/{kind}")
    links = re.findall(
        rf'<a href="({CATALOGUE}/{kind}/[0-9a-f-]{{36}})">([^<]*)</a>', browser.page.text
    )
    return next(link for link, shown in links if text in shown)


def fill(browser, **fields):
    """Send the form of the page with what stands in its fields and with some more."""
    return browser.send({**shown(browser), **fields})


def shown(browser):
    """What stands in the fields of the page's form."""
    form, *_ = re.findall(
        r'<form method="post" class="fields.*?</form>', browser.page.text, re.DOTALL
    )
    found = dict(
        re.findall(r'<input (?!type="checkbox")[^>]*?name="([^"]*)"[^>]*? value="([^"]*)"', form)
    )
    for name, options in re.findall(r'<select name="([^"]*)".*?>(.*?)</select>', form, re.DOTALL):
        found |= dict.fromkeys([name], "".join(re.findall(r'value="([^"]*)" selected', options)))
    ticked = re.findall(r'type="checkbox" name="([^"]*)" value="([^"]*)" checked', form)
    return found | dict(ticked)


# Lookup tables are in a stage that the organization has not enabled.
SEEN = [each for each in KINDS if each.resource != "lookupTables"]


@pytest.mark.parametrize("kind", SEEN, ids=lambda each: each.resource)
def test_every_kind_has_a_list_and_a_form(ada, kind):
    ada.go(kind.address)
    assert ada.page.status_code == 200
    assert kind.title in ada.text
    ada.go(f"{kind.address}/new")
    assert ada.page.status_code == 200
    assert f"Create the {kind.noun}" in ada.text


def test_an_entity_says_by_name_what_is_around_it_and_who_made_it(ada):
    ada.go(first(ada, "plans", "Basic"))

    assert "Cloud (cloud)" in ada.text
    assert "Pricings sent" in ada.text
    assert "created plan Basic" in ada.text


def test_a_meter_is_made_of_rows_without_script(ada):
    ada.go(f"{CATALOGUE}/meters/new")
    fill(ada, **{"name": "Disk", "code": "disk", "form.more": "dataFields"})
    assert 'name="dataFields.1.code"' in ada.page.text
    assert 'value="Disk"' in ada.page.text
    rows = {
        "dataFields.0.category": "MEASURE",
        "dataFields.0.code": "gb",
        "dataFields.0.name": "Gigabytes",
        "dataFields.1.category": "WHAT",
        "dataFields.1.code": "kind",
        "dataFields.1.name": "Kind",
    }
    assert "You created the meter Disk (disk)." in fill(ada, **rows)
    assert "Gigabytes" in ada.text


def test_a_form_that_is_refused_comes_back_filled_in_with_the_reason(ada):
    ada.go(f"{CATALOGUE}/products/new")
    ada.send({"name": "Cloud again", "code": "cloud"})

    assert ada.page.status_code == 409
    assert "Nothing was changed." in ada.text
    assert 'value="Cloud again"' in ada.page.text
    assert f'action="{CATALOGUE}' not in ada.page.text


def test_a_number_that_is_none_is_marked_in_its_field(ada):
    ada.go(f"{first(ada, 'pricings')}/edit")
    fill(ada, **{"pricingBands.0.unitPrice": "1.5.0"})

    assert ada.page.status_code == 400
    assert 'name="pricingBands.0.unitPrice" aria-invalid="true"' in ada.page.text
    assert 'value="1.5.0"' in ada.page.text


def test_a_change_is_in_the_history_with_the_name_of_the_person(ada):
    page = first(ada, "plans", "Basic")
    ada.go(f"{page}/edit")
    text = fill(ada, minimumSpend="12.50")
    assert "You changed Basic (basic)." in text
    assert re.search(r"Ada Lovelace updated plan Basic .*Minimum spend nothing 12\.5", ada.text)
    ada.go(f"{page}/edit")
    assert fill(ada, minimumSpend="").count("Minimum spend") >= 1


def test_a_change_of_what_somebody_changed_meanwhile_is_refused(ada):
    page = first(ada, "products")
    ada.go(f"{page}/edit")
    before = shown(ada) | ada.hidden()
    ada.send({**before, "name": "Cloud services"})
    ada.go(f"{page}/edit")
    ada.send({**before, "name": "Mine"})

    assert ada.page.status_code == 409
    assert 'value="Mine"' in ada.page.text


def test_what_stands_against_a_deletion_is_shown_and_refused(ada):
    ada.go(f"{first(ada, 'meters', 'Egress')}/delete")
    assert "What stands against it" in ada.text
    ada.send({})

    assert ada.page.status_code == 409
    assert "Nothing was changed." in ada.text


def test_what_nothing_refers_to_is_deleted(ada):
    ada.go(f"{CATALOGUE}/meterGroups/new")
    ada.send({"name": "Disks"})
    ada.go(f"{ada.path}/delete")
    assert "What stands against it" not in ada.text

    assert "You deleted the meter group Disks." in ada.send({})


def test_a_link_fills_in_a_form(ada):
    plan = first(ada, "plans").rpartition("/")[2]
    ada.go(f"{CATALOGUE}/pricings/new?planId={plan}&description=Egress")

    assert f'value="{plan}" selected' in ada.page.text
    assert 'value="Egress"' in ada.page.text


def test_each_cell_of_a_table_in_a_form_has_its_name(ada):
    ada.go(f"{CATALOGUE}/pricings/new")

    names = re.findall(r' aria-label="([^"]*)"', ada.page.text)
    assert [each for each in names if each.lower().startswith("pricing bands 1: ")] != []
    assert "aria-label=&" not in ada.page.text


def test_who_may_only_read_is_offered_nothing_else(world):
    reader = world.browser("reader@example.com")
    page = first(reader, "plans", "Basic")
    assert f'href="{CATALOGUE}/plans/new"' not in reader.page.text
    reader.go(page)
    body = {**reader.hidden(), "name": "Other", "code": "basic", "version": "1"}
    for what in ("edit", "delete"):
        assert f"{page}/{what}" not in reader.page.text
    for what in ("edit", "delete"):
        reader.page = reader.client.post(f"{page}/{what}", data=body)
        assert reader.page.status_code == 403
        reader.go(f"{page}/{what}")
        assert reader.page.status_code == 403


def test_the_catalogue_lists_the_kinds_that_a_person_may_see(world):
    products = world.browser("products@example.com")
    products.go(CATALOGUE)

    assert f'href="{CATALOGUE}/products"' in products.page.text
    assert f'href="{CATALOGUE}/plans"' not in products.page.text


@pytest.mark.parametrize("path", ["plans/nothing", "plans/nothing/edit", "plans/nothing/delete"])
def test_a_page_of_nothing_says_so(ada, path):
    ada.go(f"{CATALOGUE}/{path}")

    assert ada.page.status_code == 404


def test_text_of_others_is_only_text(ada):
    ada.go(f"{CATALOGUE}/products/new")
    ada.send(
        {"name": ATTACK, "code": "attack", "customFields.0.name": "", "customFields.0.value": ""}
    )
    page = ada.path
    for path in (
        page,
        f"{page}/edit",
        f"{page}/delete",
        f"{CATALOGUE}/products",
        f"{CATALOGUE}/meters/new",
    ):
        ada.go(path)
        assert "alert(1)" in ada.page.text
        assert "<script>" not in ada.page.text
        assert "<img" not in ada.page.text


# --- Plans ----------------------------------------------------------------------------------------


def test_a_plan_shows_its_prices_in_force_on_a_day_with_a_picture(ada):
    page = first(ada, "plans", "Basic")
    ada.go(f"{page}?date=2026-09-15")
    assert "Prices in force on Sep 15, 2026" in ada.text
    assert "tiered: each band prices its own part" in ada.text
    assert '<figure class="chart price"' in ada.page.text
    assert "31.00 USD of the template" in ada.text

    ada.go(f"{page}?date=2025-09-15")
    assert "No price is in force on this day" in ada.text
    assert '<figure class="chart price"' not in ada.page.text


def test_a_price_of_the_plan_hides_that_of_its_template(ada):
    plan = first(ada, "plans", "Basic")
    template = first(ada, "planTemplates")
    for member, page, cost in (("planTemplateId", template, "7"), ("planId", plan, "9")):
        ada.go(f"{CATALOGUE}/pricings/new?{member}={page.rpartition('/')[2]}")
        mean = re.findall(r'value="([^"]*)">[^<]*mean', ada.page.text)[0]
        band = {"lowerLimit": "0", "fixedPrice": "0", "unitPrice": cost}
        bands = {f"pricingBands.0.{name}": value for name, value in band.items()}
        fill(ada, aggregationId=mean, startDate="2026-01-01T00:00", **bands)
        assert "You created the price" in ada.text
    ada.go(f"{plan}?date=2026-09-15")
    [shown_prices] = re.findall(
        r'<article class="priced" aria-label="[^"]*mean.*?</article>', ada.page.text, re.DOTALL
    )

    assert shown_prices.index('value="9"') < shown_prices.index('value="7"')
    assert "All 2 prices by time" in shown_prices
    ada.go(f"{template}?date=2026-09-15")
    assert 'value="7"' in ada.page.text


def test_a_day_that_is_none_is_refused_in_words(ada):
    ada.go(f"{first(ada, 'plans', 'Basic')}?date=soon")

    assert ada.page.status_code == 400
    assert "it must be a date such as 2026-10-01" in ada.text


# --- Prices of many plans -------------------------------------------------------------------------


@pytest.fixture
def finance(tmp_path, monkeypatch):
    """Somebody who may change prices, in a home of her own."""
    monkeypatch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
    with a_console(tmp_path) as found:
        found.join("finance@example.com", allow())
        found.join("looks@example.com", allow("config:retrieve"))
        yield found


RAISE = f"{CATALOGUE}/raise-prices"
ASKED = f"{RAISE}?plans=basic&by=1.07&from=2026-10-01&effect=2026-09"


def test_prices_are_looked_at_with_their_effect_and_changed(finance):
    browser = finance.browser("finance@example.com")
    browser.go(ASKED)
    assert "1 price changes on Oct 1, 2026" in browser.text
    assert "two decimals more than the old price has" in browser.text
    assert re.search(
        r"<del><data[^>]*>1</data></del> <ins><data[^>]*>1\.07</data>", browser.page.text
    )
    assert "What the bills of 2026-09 would have come to" in browser.text
    before, after = (
        Decimal(each)
        for each in re.findall(r'<td class="number"><data[^>]*value="([^"]*)"', browser.page.text)[
            :2
        ]
    )
    # 42.5 and 100 units of two customers, rounded on each bill.
    assert after - before == Decimal("2.98") + Decimal(7)

    text = fill(browser)
    assert "You changed 1 price." in text
    browser.go(f"{first(browser, 'plans', 'Basic')}?date=2026-10-02")
    assert 'value="1.07"' in browser.page.text


def test_prices_that_somebody_changed_meanwhile_are_shown_again(finance):
    browser, other = finance.browser("finance@example.com"), finance.browser("finance@example.com")
    browser.go(ASKED)
    other.go(f"{first(other, 'pricings')}/edit")
    fill(other, **{"pricingBands.0.unitPrice": "3"})
    text = fill(browser)

    assert browser.page.status_code == 409
    assert "have changed since you looked at them" in text
    assert "3.21" in text


def test_a_table_of_factors_decides_by_line(finance):
    browser = finance.browser("finance@example.com")
    browser.go(f"{RAISE}?plans=basic&from=2026-10-01&factors=sent,%202%0Abasic,%20sent,%203")
    assert "× 3" in browser.text
    place = f"{RAISE}?plans=basic&from=2026-10-01&factors="
    for language, factors in (("en", "sent,2.5"), ("de", "basic; sent; 2,5"), ("de", "sent, 2,5")):
        browser.client.headers["Accept-Language"] = language
        browser.go(f"{place}{quote(factors)}")
        assert f"× {'2,5' if language == 'de' else '2.5'}" in browser.text
    browser.client.headers["Accept-Language"] = "en"
    browser.go(f"{place}much")
    assert browser.page.status_code == 400
    assert "write an aggregation and a factor" in browser.text


@pytest.mark.parametrize(
    ("typed", "factor"), [("7 %", "1.07"), ("+7%", "1.07"), ("-2.5 %", "0.975"), ("7,5%", "1.075")]
)
def test_prices_are_raised_by_percent(finance, typed, factor):
    browser = finance.browser("finance@example.com")
    browser.go(f"{RAISE}?plans=basic&from=2026-10-01&by={quote(typed)}")
    assert f"× {factor}" in browser.text


@pytest.mark.parametrize("typed", ["+7", "much", "seven %"])
def test_a_factor_that_is_none_comes_back_in_its_form(finance, typed):
    browser = finance.browser("finance@example.com")
    browser.go(f"{RAISE}?plans=basic&from=2026-11-01&by={quote(typed)}")
    assert browser.page.status_code == 400
    assert f"by: '{typed.removesuffix(' %')}' is not allowed" in browser.text
    assert f'name="by" inputmode="decimal" value="{typed}"' in browser.page.text
    assert 'value="basic" checked' in browser.page.text
    assert 'value="2026-11-01"' in browser.page.text


def price_template(world):
    """Bare and Other have the prices of the template; the customer New has Other."""
    configure(
        world.home.organization,
        plans=[
            {"code": "bare", "name": "Bare", "planTemplateId": "cloud"},
            {"code": "other", "name": "Other", "planTemplateId": "cloud", "standingCharge": 5},
        ],
        pricings=[
            {
                "code": "shared",
                "planTemplateId": "cloud",
                "aggregationId": "mean",
                "startDate": "2026-01-01T00:00:00Z",
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 3}],
            }
        ],
        accounts=[{"code": "new", "name": "New", "emailAddress": "new@example.com"}],
        accountPlans=[{"accountId": "new", "planId": "other", "startDate": "2026-01-01T00:00:00Z"}],
    )


def test_a_plan_with_the_prices_of_its_template_leads_to_the_template(finance):
    price_template(finance)
    browser = finance.browser("finance@example.com")
    browser.go(f"{RAISE}?plans=bare&by=2&from=2026-10-01")
    assert "Bare has prices of the template Cloud, which stay as they are" in browser.text
    [place] = re.findall(r'href="([^"]*)">Raise the prices of the template, too', browser.page.text)
    assert "changes them for 3 customers: Basic (2 customers), Other (1 customer)" in browser.text
    browser.go(unescape(place))
    ticked = re.findall(r'name="plans" value="(\w+)" checked', browser.page.text)
    assert sorted(ticked) == ["bare", "cloud"]
    assert "The prices of the template Cloud change for all of its plans" in browser.text


def test_two_plans_of_a_template_are_raised_alone(finance):
    price_template(finance)
    browser = finance.browser("finance@example.com")
    browser.go(f"{RAISE}?plans=bare&by=2&from=2026-10-01")
    [place] = re.findall(r'href="([^"]*)">Give this plan prices of its own', browser.page.text)
    browser.go(unescape(place))
    assert "its own, in place of that of cloud" in browser.text
    assert "Other plans of the template Cloud keep their prices: Basic" in browser.text
    text = fill(browser)
    assert "You changed 1 price." in text
    found = {
        each.entity.code: each.entity
        for each in finance.home.organization.configuration().all(Pricing)
    }
    assert found["shared"].end_date is None
    own = found["shared-bare-2026-10-01"]
    assert (own.plan_template_id, own.pricing_bands[0].unit_price) == (None, 6)


def test_what_prices_leave_out_and_last_month_are_told_without_asking(finance):
    price_template(finance)
    browser = finance.browser("finance@example.com")
    browser.go(f"{RAISE}?plans=other&plans=basic&by=2&from=2030-01-01")
    assert "Standing charges and minimum spends stay as they are" in browser.text
    assert re.search(r"other, standing charge \$?5", browser.text)
    assert re.search(r"basic, standing charge \$?31", browser.text)
    assert re.search(r"What the bills of \d{4}-\d{2} would have come to", browser.text)
    browser.go(f"{RAISE}?plans=other&by=2&from=2030-01-01&effect=")
    assert "would have come to</h2>" not in browser.page.text


def test_who_may_not_change_prices_sees_the_proposal_without_a_button(finance):
    looks = finance.browser("looks@example.com")
    looks.go(ASKED)

    assert "1 price changes" in looks.text
    assert "Change 1 price" not in looks.text


# --- Aggregations ---------------------------------------------------------------------------------


def test_an_aggregation_is_tried_while_it_is_edited_and_not_saved(finance):
    browser = finance.browser("finance@example.com")
    page = first(browser, "aggregations", "Sent")
    browser.go(f"{page}/edit")
    fill(browser, **{"aggregation": "MAX", "form.try": "1", "form.month": "2026-09"})

    assert browser.page.status_code == 200
    assert re.search(r"acme .*2 40 40", browser.text)
    assert 'value="MAX" selected' in browser.page.text
    assert "Sum" in browser.go(page)
    browser.go(f"{page}/edit")
    fill(browser, **{"targetField": "no", "form.try": "1", "form.month": "2026-09"})
    assert browser.page.status_code == 400
    assert "Nothing was changed." in browser.text
    assert 'value="no"' in browser.page.text
