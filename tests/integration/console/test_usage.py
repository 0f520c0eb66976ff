"""Usage in the console: questions by their address, as chart, table, SQL, file; saved; explained."""

import csv
import html
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from urllib.parse import parse_qs, urlencode, urlsplit
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest
from argon2 import PasswordHasher

from meterlake.console.usage import _every_time, _largest
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values.period import Month
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.quantities import QUANTITIES
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.worker.flow_runs import Executor
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, configure, csv_row
from tests.people import allow

BERLIN = ZoneInfo("Europe/Berlin")
USAGE = f"{CONSOLE}/usage"
SEPTEMBER = f"{USAGE}?meter=egress&field=gb&from=2026-09-01&to=2026-09-30"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with (
        pytest.MonkeyPatch.context() as patch,
        a_console(tmp_path_factory.mktemp("u"), limit_explorer=False) as found,
    ):
        aggregate(found.home.organization, PeriodSpec.month(Month.parse("2026-09")))
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        found.join(
            "asker@example.com",
            allow("config:retrieve"),
            allow("analytics:query", "analytics:usage"),
        )
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def numbers(browser):
    """The numbers of the table of the answer."""
    return [
        Decimal(each)
        for each in re.findall(
            r'<td class="number">\s*(?:<a [^>]*>\s*)?<data[^>]*value="([^"]*)"', browser.page.text
        )
    ]


def test_a_question_is_answered_as_chart_and_table_by_its_address(ada):
    ada.go(f"{SEPTEMBER}&by=MONTH&group=account")

    assert ada.page.status_code == 200
    assert sorted(numbers(ada)) == [Decimal("42.5"), Decimal(200)]
    assert 'aria-label="Sum of Sent"' in ada.page.text
    assert "Sep 2026, bolt: 200" in ada.text
    assert re.search(r'<a href="/console/customers/[0-9a-f-]{36}">acme</a>', ada.page.text)


def number_links(browser):
    """Where the numbers of the table lead, with the numbers."""
    found = re.findall(
        r'<a href="(/console/usage/number[^"]*)">\s*<data[^>]*value="([^"]*)"', browser.page.text
    )
    return [(html.unescape(link), Decimal(number)) for link, number in found]


@pytest.mark.parametrize("by", ["-", "DAY", "HOUR", "MONTH"])
@pytest.mark.parametrize("groups", ["", "&group=account", "&group=region&also=account"])
def test_each_number_leads_to_its_own_measurements(ada, by, groups):
    ada.go(f"{SEPTEMBER}&by={by}{groups}")
    links = number_links(ada)
    assert [number for _, number in links] == numbers(ada)
    for link, number in links:
        ada.go(link)
        assert ada.page.status_code == 200, ada.text
        head, *rows = csv.reader(ada.client.get(f"{link}&format=csv").text.splitlines())
        assert sum(Decimal(row[head.index("Value")]) for row in rows) == number
        assert all(row[head.index("File")] and row[head.index("Row")] for row in rows)
        assert f'value="{number}"' in ada.page.text
        assert f"Measurements {len(rows)} " in ada.text


def test_the_page_of_a_number_leads_to_its_file_and_to_the_quantity_of_its_month(ada):
    ada.go(f"{SEPTEMBER}&by=HOUR&group=account&customer=bolt")
    [(link, _)] = number_links(ada)
    ada.go(link)

    assert f'href="{USAGE}/explain?account=bolt&amp;period=2026-09"' in ada.page.text
    assert re.search(r'href="/console/data-in/sources/[0-9a-f]{64}"', ada.page.text)
    assert "SELECT" in ada.page.text
    back = html.unescape(re.findall(r'href="([^"]*)">Back to the question', ada.page.text)[0])
    ada.go(back)
    assert number_links(ada) == [(link, Decimal(200))]


def test_a_number_of_nothing_is_refused_in_words(ada):
    for address in (f"{USAGE}/number", f"{USAGE}/number?meter=egress&of=[]"):
        ada.go(address)
        assert ada.page.status_code in {400, 404}
    ada.go(f"{USAGE}/number?{urlsplit(SEPTEMBER).query}&by=DAY&of=%7B%22day%22%3A%22x%22%7D")
    assert "group.day" in ada.text


def test_a_question_is_narrowed_by_customers(ada):
    ada.go(f"{SEPTEMBER}&by=-&customer=acme")
    assert numbers(ada) == [Decimal("42.5")]
    ada.go(f"{SEPTEMBER}&customer=nobody")
    assert ada.page.status_code == 404
    assert "There is no customer with the code 'nobody'." in ada.text


def test_measurements_are_shown_as_they_were_sent(ada):
    ada.go(f"{SEPTEMBER.replace('field=gb', 'field=-')}")

    assert sorted(numbers(ada)) == [Decimal("2.5"), Decimal(40), Decimal(200)]
    assert "Received" in ada.text


def test_the_sql_of_a_question_is_shown_on_request(ada):
    assert "date_trunc" not in ada.go(SEPTEMBER)
    ada.go(f"{SEPTEMBER}&sql=1")

    assert "date_trunc('day', m.ts)" in ada.text
    assert "TIMESTAMP '2026-09-01 00:00:00'" in ada.text


def test_rows_are_downloaded_as_files(ada, tmp_path):
    ada.go(f"{SEPTEMBER}&by=-&group=account&format=csv")
    assert ada.page.text.splitlines()[0] == "meterId,meter,accountId,account,measure.gb.SUM"
    ada.go(f"{SEPTEMBER}&by=-&group=account&format=parquet")
    (tmp_path / "rows.parquet").write_bytes(ada.page.content)

    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert {row["account"]: row["measure.gb.SUM"] for row in rows} == {
        "acme": Decimal("42.5"),
        "bolt": 200,
    }


def test_a_question_is_saved_asked_again_by_its_address_and_deleted(ada):
    ada.go(
        f"{USAGE}?meter=egress&field=gb&time=PREVIOUS_MONTH&by=DAY&group=account&where0=region&is0=eu,us"
    )
    assert "You saved the question as Egress by day." in ada.send(
        {"action": "save", "name": "Egress by day"}
    )
    [link] = re.findall(r'<a href="([^"]*)">Egress by day</a>', ada.page.text)
    asked = parse_qs(urlsplit(link.replace("&amp;", "&")).query)

    assert asked["meter"] == ["egress"]
    assert asked["time"] == ["PREVIOUS_MONTH"]
    assert asked["is0"] == ["eu,us"]
    assert "You deleted the question Egress by day." in ada.press("forget")


def test_a_saved_question_of_days_is_asked_by_its_id(ada):
    ada.go(f"{SEPTEMBER}&by=-&customer=bolt")
    ada.send({"action": "save", "name": "Bolt in September"})
    [link] = re.findall(r'<a href="([^"]*)">Bolt in September</a>', ada.page.text)
    ada.go(link)

    assert "saved=" in link
    assert numbers(ada) == [Decimal(200)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("meter=nothing", "There is no meter 'nothing'."),
        ("meter=egress&time=SOON", "time: 'SOON' is not allowed"),
        ("meter=egress&from=soon", "from: 'soon' is not allowed"),
    ],
)
def test_a_question_of_nothing_is_refused_in_words(ada, changes, reason):
    ada.go(f"{USAGE}?{changes}")

    assert ada.page.status_code in {400, 404}
    assert reason in ada.text


def test_a_quantity_is_explained_by_its_measurements(ada):
    ada.go(f"{USAGE}/explain?account=acme&aggregation=sent&period=2026-09")

    assert "42.5" in ada.text
    assert len(re.findall(r"<td><code>", ada.page.text)) == 2
    assert "The SQL" in ada.text
    ada.go(f"{USAGE}/explain?account=acme&aggregation=sent&period=2026-07")
    assert ada.page.status_code == 404


def test_a_quantity_is_asked_for_by_the_name_of_the_customer(ada):
    for name in ("Acme", "acme", "acm"):
        ada.go(f"{USAGE}/explain?account={name}&aggregation=sent&period=2026-09")
        assert ada.page.status_code == 200
        assert 'name="account" value="acme"' in ada.page.text
        assert "42.5" in ada.text


@pytest.mark.parametrize(
    ("account", "period", "said"),
    [
        ("Nobody AG", "2026-09", "there is no customer with the code or the name 'Nobody AG'"),
        ("acme", "October 2026", "October 2026"),
    ],
)
def test_what_is_wrong_of_an_explanation_comes_back_in_its_form(ada, account, period, said):
    asked = {"account": account, "aggregation": "sent", "period": period}
    ada.go(f"{USAGE}/explain?{urlencode(asked)}")
    assert ada.page.status_code in {400, 404}
    assert said in ada.text
    assert "Go back with your browser" not in ada.text
    assert f'name="account" value="{account}"' in ada.page.text
    assert f'name="period" value="{period}"' in ada.page.text


def calculate(world):
    """The worker does what was asked for."""
    executor = Executor(world.home.stores.settings)
    list(run_round(QUANTITIES, executor, world.home.organization, lambda: False))


def test_a_quantity_that_is_older_than_what_came_says_so_and_can_be_calculated(world, ada):
    page = f"{USAGE}/explain?account=acme&aggregation=sent&period=2026-06"
    rows = [csv_row(f"june-{n}", 2, ts="2026-06-03T00:00:00Z") for n in range(25)]
    world.home.ingest("june.csv", HEADER + "".join(rows))
    ada.go(page)
    assert ada.page.status_code == 404
    assert "The worker calculates the quantities of 2026-06." in ada.press("calculate")
    calculate(world)
    ada.go(f"{CONSOLE}/runs?kinds=QUANTITIES")
    assert "quantities of 2026-06" in ada.text
    ada.go(page)
    assert "sent: 50" in ada.text
    assert not ada.offers("calculate")
    assert "These are the first 20 of 25" in ada.text
    ada.go(f"{page}&rows=more")
    assert len(re.findall(r"<td><code>june-", ada.page.text)) == 25

    world.home.ingest("more.csv", HEADER + csv_row("june-99", 7, ts="2026-06-04T00:00:00Z"))
    ada.go(page)
    assert "calculated now it is 57 GB" in ada.text
    assert "1 more came since" in ada.text
    asker = world.browser("asker@example.com")
    asker.go(page)
    assert "calculated now it is 57 GB" in asker.text
    assert not asker.offers("calculate")
    ada.go(page)
    ada.press("calculate")
    calculate(world)
    ada.go(page)

    assert "sent: 57" in ada.text
    assert "calculated now" not in ada.text


def test_who_may_not_ask_is_offered_nothing(world):
    reader = world.browser("reader@example.com")
    assert f'href="{USAGE}"' not in reader.page.text
    reader.go(f"{SEPTEMBER}")
    assert reader.page.status_code == 403

    asker = world.browser("asker@example.com")
    asker.go(SEPTEMBER)
    assert asker.page.status_code == 200
    assert not asker.offers("save")


def test_text_of_the_address_is_only_text(ada):
    attack = '"><script>alert(1)</script>'
    for name in ("meter", "where0", "is0", "group", "saved", "customer"):
        ada.go(f"{USAGE}?meter=egress&from=2026-09-01&where0=region&{name}={attack}")
        assert "<script>" not in ada.page.text


def test_days_and_relative_times_are_those_of_the_organization(tmp_path):
    with a_console(tmp_path) as found:
        settings = {"timezone": "Europe/Berlin", "daysBeforeBillDue": 30}
        configure(found.home.organization, organizationConfig=settings)
        last_month = datetime.now(UTC).replace(day=1) - timedelta(days=15)
        row = csv_row("late", ts=f"{last_month:%Y-%m-%d}T10:00:00Z")
        found.home.ingest("last-month.csv", HEADER + row)
        found.join("berlin@example.com", allow())
        ada = found.browser("berlin@example.com")
        ada.go(f"{USAGE}?meter=egress&field=gb&by=DAY&from=2026-09-03&to=2026-09-03")
        assert "Day Sum of Sent Sep 3, 2026 242.5" in ada.text
        files_have_days_and_hours_of_berlin(ada)
        ada.go(
            f"{USAGE}?meter=egress&field=gb&by=MONTH&group=account&from=2026-09-01&to=2026-09-30"
        )
        assert "Sep 1, 2026" in ada.text
        ada.go(html.unescape(re.findall(r'href="(/console/usage/number[^"]+)"', ada.page.text)[0]))
        assert "Sep 1, 2026" in ada.text
        ada.go(f"{USAGE}?meter=egress&field=gb&time=PREVIOUS_MONTH")
        limits = re.findall(r'title="[\d-]{10} (\d\d:\d\d:\d\d) UTC"', ada.page.text)

    assert limits
    assert set(limits) <= {"22:00:00", "23:00:00"}


def files_have_days_and_hours_of_berlin(ada):
    """Beside the instants, which a spreadsheet takes for the day before."""
    ada.go(f"{SEPTEMBER}&by=DAY&customer=bolt&format=csv")
    head, *rows = ada.page.text.splitlines()
    assert head == "meterId,meter,day,day (Europe/Berlin),measure.gb.SUM"
    assert [row.split(",")[2:] for row in rows] == [["2026-09-02T22:00:00Z", "2026-09-03", "200"]]
    ada.go(f"{SEPTEMBER}&by=HOUR&customer=bolt&format=csv")
    assert "2026-09-03T10:00:00Z,2026-09-03T12:00:00+02:00,200" in ada.page.text
    ada.go(f"{SEPTEMBER}&by=DAY&customer=bolt&format=json")
    [row] = ada.page.json()
    assert (row["day"], row["day (Europe/Berlin)"]) == ("2026-09-02T22:00:00Z", "2026-09-03")


# --- The chart ------------------------------------------------------------------------------------


def test_days_without_measurements_have_their_place_in_a_chart():
    found = _every_time({"2026-10-23T22:00:00Z", "2026-10-25T23:00:00Z"}, "DAY", BERLIN)

    assert found == ["2026-10-23T22:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]


def test_hours_pass_evenly_when_clocks_go_back():
    found = _every_time({"2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"}, "HOUR", BERLIN)

    assert found == [f"2026-10-25T0{hour}:00:00Z" for hour in range(3)]


def test_many_groups_are_the_largest_and_the_others_where_values_add_up():
    series = {f"g{n:02}": [Decimal(n), None] for n in range(20)}
    summed, highest = _largest(series, "SUM"), _largest(series, "MAX")

    assert list(summed) == ["g19", "g18", "g17", "g16", "g15", "g14", "g13", "others"]
    assert summed["others"] == [sum(range(13)), 0]
    assert "others" not in highest
