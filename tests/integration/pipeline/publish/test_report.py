"""The report: what it says, and that nothing in it comes from or goes anywhere else."""

import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser

import pytest

from meterlake.cli import run
from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.values.period import Month, zone
from meterlake.pipeline.billing.bills import approve_bills
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.publish.report import gather_report, page_of, report
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills.bills import of_period
from tests.bills import a_home_to_bill
from tests.databases import copy_home
from tests.doubles.homes import Clock, Home, furnish, make_home
from tests.homes import HEADER, csv_row
from tests.long_cases import long_after
from tests.statement_world import SEPTEMBER

pytest_plugins = ["tests.doubles.fixtures"]
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made, clock = make_home(tmp_path_factory.mktemp("report") / "home")
    with open_stores(made, clock) as stores:
        furnished = furnish(stores, clock)
        with stores.state.transaction(furnished.org_id, "test") as t:
            account = t.find(Account, "zoë's")
            evil = account.entity.model_copy(update={"code": EVIL})
            t.update(account.id, account.version, evil)
            meter = t.get(Meter, furnished.meter_id)
            named = meter.entity.model_copy(update={"name": f"Disks {EVIL}"})
            t.update(meter.id, meter.version, named)
        yield furnished


class Page(HTMLParser):
    """The parts of a page that matter here."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.ids: set[str | None] = set()
        self.asked: list[str | None] = []
        self.text = ""
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        self.asked += [found[name] for name in ("src", "href", "action") if name in found]
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, _tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.text += data


@pytest.mark.long
def test_the_figures_are_those_of_the_lake(home):
    found = gather_report(home.organization)

    [usage] = found.usage
    assert usage.steps == ["2026-10-01", "2026-10-15", "2026-11-01"]
    measurements, size, egress = usage.series
    assert list(measurements.values) == [2, 1, 2]
    assert size.values[0] == Decimal("99999999999999999999999999.999999999998")
    assert list(egress.values) == [7, Decimal("20.5"), 1000000]
    assert [account for account, _ in usage.accounts] == [EVIL, "acme"]
    assert usage.accounts[1][1] == Decimal("101.499999999999")
    assert (found.accounts, found.step, found.snapshot) == (2, "day", home.lake.snapshot())
    assert ("disk", 5) in [(each.meter, each.measurements) for each in found.meters]
    assert [(each.month, each.aggregation, each.accounts) for each in found.totals] == [
        ("2026-10", "bytes_sum", 1)
    ]


def test_a_month_is_one_of_the_organizations_calendar(home):
    found = gather_report(home.organization, Month(2026, 10))

    # The first hour and a half of October in Berlin is in September in UTC, and so at its end.
    assert list(found.usage[0].series[0].values) == [2, 1]
    assert found.usage[0].steps == ["2026-10-01", "2026-10-15"]
    assert found.first is not None
    assert found.first.isoformat() == "2026-09-30T22:00:00+00:00"


@pytest.mark.long
def test_a_month_has_the_rejected_rows_of_its_days(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        rows = [
            csv_row(f"of {month}", "x", ts=f"2026-{month}-03T10:00:00Z") for month in ("09", "10")
        ]
        home.ingest("bad.csv", HEADER + "".join(rows))

        counts = {
            month: sum(count for _, count in gather_report(home.organization, month).rejected)
            for month in (None, Month(2026, 9), Month(2026, 10), Month(2026, 8))
        }
    assert list(counts.values()) == [2, 1, 1, 0]


@pytest.mark.long
def test_gauges_are_not_added_up(crowded):
    """Seats on three days are no seats of a month: each account's latest ones count."""
    fields = (Field(Category.MEASURE, "seats"), Field(Category.MEASURE, "calls"))
    meter = crowded.meter("gauges", fields)
    with crowded.organization.transaction("test") as t:
        for kind in ("MAX", "LATEST"):
            document = {"name": kind, "code": f"seats_{kind}", "meterId": meter.id, "unit": "seat"}
            document |= {"targetField": "seats", "aggregation": kind, "rounding": "NONE"}
            t.create(Aggregation.from_wire(document | {"quantityPerUnit": Decimal(1)}))
    days = (("2026-10-01", 40, 1), ("2026-10-02", 7, 2), ("2026-10-03", 5, 4))
    rows = [
        (f"g-{day}", "acme", f"{day} 10:00:00", None, seats, calls) for day, seats, calls in days
    ]
    wide = Decimal("99999999999999999999999999.5")
    rows += [("g-zoë", "zoë's", "2026-10-01 11:00:00", None, wide, 0)]
    rows += [("g-gone", "zoë's", "2026-10-03 09:00:00", None, 3, 0)]
    crowded.store(meter, rows)
    found = gather_report(crowded.organization)
    [usage] = [each for each in found.usage if each.meter == "gauges"]

    assert [each.name for each in usage.series] == [
        "measurements",
        "latest Seats of all accounts",
        "Calls",
    ]
    assert usage.ranked_by == "latest Seats (B)"
    assert usage.accounts == [("acme", 5), ("zoë's", 3)]
    # On the second day, the other account has what it had on the first.
    assert usage.series[1].values == [wide + 40, wide + 7, 8]
    assert usage.series[2].values == [1, 2, 4]


@pytest.mark.long
def test_the_page_has_the_amounts_of_bills(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        home.clock.time = datetime.now(UTC)
        empty = page_of(gather_report(home.organization))
        bill(home.organization, SEPTEMBER)
        with home.organization.reading() as reader:
            stored = of_period(reader, str(SEPTEMBER))
        approved = stored[0]
        approve_bills(home.organization, "finance", [approved.id])
        found = gather_report(home.organization, SEPTEMBER)
        other_month = gather_report(home.organization, Month(2020, 1))

    assert "No bills yet" in empty
    assert other_month.billed == []
    totals = defaultdict(Decimal)
    for each in stored:
        totals[each.content.currency] += each.content.total
    assert {each.currency: each.total for each in found.billed} == totals
    assert sum(each.bills for each in found.billed) == len(stored)
    assert sum(each.approved_total for each in found.billed) == approved.content.total
    assert sum(each.approved for each in found.billed) == 1
    assert f"<td>{approved.content.total:,.2f}</td>" in page_of(found)


@pytest.mark.long
def test_a_month_without_usage_is_a_page(home, tmp_path):
    path = report(home.organization, Month(2020, 1), tmp_path / "empty.html")

    assert "There are no measurements" in path.read_text("utf-8")


@pytest.mark.long
def test_names_are_text_and_nothing_else(home):
    text = page_of(gather_report(home.organization))
    page = Page(text)

    assert EVIL not in text
    assert EVIL in page.text
    data, plotly, script = page.scripts
    figures = json.loads(data)
    assert {figure["id"] for figure in figures} <= page.ids
    # Plotly reads a few tags itself; to it, names have none.
    shown = json.dumps([figure["data"] for figure in figures] + [f["layout"] for f in figures])
    assert "<" not in shown
    assert "alert(1)" not in plotly + script


def test_the_page_asks_nobody_for_anything(home):
    text = page_of(gather_report(home.organization))

    assert Page(text).asked == []
    assert "default-src 'none'" in text
    assert not re.search(r"@import|url\(", text.split("</style>")[0])


@pytest.mark.long
def test_the_page_says_whose_it_is_and_from_when(home):
    text = Page(page_of(gather_report(home.organization))).text

    assert "Usage of Small & Söhne" in text
    assert f"lake snapshot {home.lake.snapshot()}" in text
    assert "2026-09-30 22:30 to 2026-11-01 00:00 UTC" in text
    assert "days in Europe/Berlin" in text


@pytest.fixture
def crowded(home_template, tmp_path):
    folder = tmp_path / "home"
    copy_home(home_template, folder)
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        yield Home.of(stores, clock)


@pytest.mark.slow
def test_much_is_cut_to_what_can_be_read(crowded):
    # A field may be called like what the query calls its own columns.
    codes = ("step", "account_id", "day", "count", "ts", "f5")
    fields = tuple(Field(Category.MEASURE, code) for code in codes)
    rows = [
        (f"c-{i}", f"account-{i}", f"{1600 + i}-01-01 00:00:00", None, *range(6))
        for i in range(420)
    ]
    crowded.store(crowded.meter("many", fields), rows)
    found = gather_report(crowded.organization)
    usage = next(each for each in found.usage if each.meter == "many")

    assert found.step == "month"
    assert (len(usage.steps), len(usage.accounts), len(usage.series)) == (400, 10, 5)
    assert usage.steps[-1] == "2019-01-01"


@pytest.mark.long
def test_accounts_are_ranked_by_the_whole_of_their_sums(crowded):
    # Of the first the whole parts add up to 0, of the last the two parts to less than the first.
    used = {"many-small": ["0.9"] * 8, "one": ["5"], "negative": ["8", "-0.9", "-0.9", "-0.9"]}
    rows = [
        (f"r-{account}-{i}", account, "2026-10-05 00:00:00", None, value)
        for account, values in used.items()
        for i, value in enumerate(values)
    ]
    crowded.store(crowded.meter("hours", (Field(Category.MEASURE, "h"),)), rows)
    found = gather_report(crowded.organization)

    usage = next(each for each in found.usage if each.meter == "hours")
    assert usage.accounts == [
        ("many-small", Decimal("7.2")),
        ("negative", Decimal("5.3")),
        ("one", 5),
    ]


@pytest.mark.parametrize("name", long_after(1, ["+1:30", "GMT+1", "UTC-3:00"]))
def test_days_are_those_of_an_offset_too(crowded, name):
    change_timezone(crowded, name)

    found = gather_report(crowded.organization, Month(2026, 10))

    expected = Counter(
        str(ts.replace(tzinfo=UTC).astimezone(zone(name)).date())
        for ts in instants_of(crowded)
        if ts in Month(2026, 10).period(zone(name))
    )
    [usage] = found.usage
    assert dict(zip(usage.steps, usage.series[0].values, strict=True)) == expected


def change_timezone(home, name):
    with home.organization.transaction("test") as t:
        [config] = t.all(OrganizationConfig)
        t.update(config.id, config.version, config.entity.model_copy(update={"timezone": name}))


def instants_of(home):
    with home.lake.reader() as connection:
        rows = connection.execute(f'SELECT ts FROM lake."m_{home.meter_id}"').fetchall()
    return [ts.replace(tzinfo=UTC) for (ts,) in rows]


@pytest.mark.long
def test_what_is_in_a_parents_quantity_is_not_added_up_again(crowded):
    before = gather_report(crowded.organization).totals
    with crowded.lake.lock(), crowded.lake.transaction() as connection:
        connection.execute(
            "INSERT INTO lake.quantity BY NAME SELECT * REPLACE ('child' AS pooled, 'x' AS account_id)"
            " FROM lake.quantity"
        )

    assert gather_report(crowded.organization).totals == before


@pytest.mark.long
def test_the_command_writes_the_page(home, tmp_path, capsys):
    out = tmp_path / "out" / "page.html"
    code = run(["report", "--home", str(home.stores.home), "--out", str(out), "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(out), "month": None}
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert run(["report", "--home", str(home.stores.home), "--month", "2026-13"]) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_draws_every_chart_from_the_disk(home, tmp_path):
    path = report(home.organization, out=tmp_path / "page.html")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    drawn = subprocess.run(
        ["chromium", *options, f"--user-data-dir={tmp_path}/profile", "--dump-dom", path.as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    figures = json.loads(Page(path.read_text("utf-8")).scripts[0])

    assert len(figures) == 2
    assert drawn.count('class="main-svg"') >= len(figures)
    assert "<script>alert(1)" not in drawn
