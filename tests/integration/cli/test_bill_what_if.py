"""`meterlake bill what-if`: what it says, in which forms, and how it ends."""

import csv
import json
from decimal import Decimal
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from meterlake.cli import run
from tests.bills import a_home_to_bill, refuse_bills, use
from tests.integration.cli.test_bill import NO_ID, lines_of

MONTH = ("--months", "2026-09")
# 31 USD a month as before, and 1.50 USD a unit up to 100 instead of 1.
PRICE = """
pricings:
  - code: sent
    planId: basic
    aggregationId: sent
    startDate: "2026-01-01T00:00:00Z"
    cumulative: true
    pricingBands:
      - {lowerLimit: 0, fixedPrice: 0, unitPrice: 1.5}
      - {lowerLimit: 100, fixedPrice: 0, unitPrice: 0}
"""


@pytest.fixture
def priced(tmp_path):
    """A home in which acme used 42.5 and bolt 200, and a file with another price."""
    (tmp_path / "price.yaml").write_text(PRICE)
    with a_home_to_bill(tmp_path) as home:
        yield home, str(tmp_path / "price.yaml")


def shown(home, capsys, *options):
    capsys.readouterr()
    code = run(["bill", "what-if", *options, "--home", str(home.stores.home)])
    return code, capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (MONTH, "--with or --backfill is required"),
        (("--with", "FILE"), "--months is required"),
        (("--with", "FILE", "--months", "2026-09..2026-13"), "--months: '2026-09..2026-13' is not"),
        (("--with", "FILE", "--months", "2026-09..2026-08"), "months: '2026-09..2026-08' is not"),
        (("--with", "FILE", "--months", "2026-09.."), "--months: '2026-09..' is not allowed"),
        (("--with", "FILE", "--months", "1000-01..2026-08"), "of at most 120 months"),
        (
            ("--with", "FILE", "--backfill", "b"),
            "--backfill: 'b' is not allowed: leave it out when you give",
        ),
        (("--backfill", "none"), "no backfill 'none'"),
        (("--with", "none.yaml", *MONTH), "no file 'none.yaml'"),
        (("--with", "FILE", *MONTH, "--accounts", "nobody"), "no account 'nobody'"),
        (("--with", "FILE", *MONTH, "--accounts", NO_ID), f"no Account '{NO_ID}'"),
        (("--with", "FILE", *MONTH, "--format", "csv"), "--json and --format csv exclude"),
        (("--with", "FILE", *MONTH, "--picture", "/no/where.svg"), "--picture: '/no/where.svg'"),
        (("--with", "FILE", *MONTH, "--output", "/no/where"), "--output: '/no/where' is not"),
    ],
)
def test_options_that_make_no_sense_are_refused(priced, capsys, options, told):
    home, file = priced
    given = [file if each == "FILE" else each for each in options]

    code, [line] = lines_of(home, capsys, "what-if", *given)

    assert code != 0
    assert told in json.dumps(line)


def test_a_mistake_in_a_file_is_that_of_apply(priced, tmp_path, capsys):
    home, _ = priced
    bad = tmp_path / "bad.yaml"
    bad.write_text(PRICE.replace("basic", "bassic"))

    code, output = shown(home, capsys, "--with", str(bad), *MONTH)
    applied = run(["config", "apply", str(bad), "--home", str(home.stores.home)])

    assert (code, applied) == (1, 1)
    assert output.err == capsys.readouterr().err
    assert f"{bad}:4: " in output.err
    assert output.out == ""


def test_a_raised_price_yields_the_difference_calculated_by_hand(priced, capsys):
    home, file = priced
    code, output = shown(home, capsys, "--with", file, *MONTH)

    assert code == 0
    rows = [line.split() for line in output.out.splitlines() if "USAGE" in line]
    # 42.5 and 100 units at 1, and at 1.50; beyond 100 they are free.
    assert rows == [
        ["acme", "cloud", "USAGE", "42.50", "63.75", "+21.25", "USD"],
        ["bolt", "cloud", "USAGE", "100.00", "150.00", "+50.00", "USD"],
    ]
    [total] = [line.split() for line in output.out.splitlines() if "%" in line]
    # 2 x 31 beside it.
    assert total == ["USD", "204.50", "275.75", "+71.25", "+34.84", "%"]
    assert "2 pay more, 0 pay less (USD)" in output.out
    assert "2 bills of these months are not made yet" in output.out


@pytest.mark.long
def test_all_forms_have_the_same_amounts(priced, tmp_path, capsys):
    home, file = priced
    given = ("--with", file, *MONTH)
    _, lines = lines_of(home, capsys, "what-if", *given)
    *rows, summary = lines
    text, parquet = tmp_path / "all.csv", tmp_path / "all.parquet"
    for path in (text, parquet):
        form = ("--format", path.suffix[1:], "--output", str(path))
        assert shown(home, capsys, *given, *form)[0] == 0
    _, printed = shown(home, capsys, *given, "--format", "csv")
    _, [first, *_] = lines_of(home, capsys, "what-if", *given, "--by-month")
    assert (first["month"], "month" in rows[0]) == ("2026-09", False)

    assert {each.pop("type") for each in rows} == {"amount"}
    assert [(e["account"], e["lineItemType"], e["difference"]) for e in rows] == [
        ("acme", "STANDING_CHARGE", 0),
        ("acme", "USAGE", 21.25),
        ("bolt", "STANDING_CHARGE", 0),
        ("bolt", "USAGE", 50),
    ]
    assert list(csv.DictReader(text.read_text().splitlines())) == [
        {name: str(value) for name, value in row.items()} for row in rows
    ]
    assert printed.out == text.read_text()
    amounts = pq.read_table(parquet).to_pylist()
    assert [each["difference"] for each in amounts] == [0, Decimal("21.25"), 0, 50]
    assert [{k: row[k] for k in ("account", "product", "currency")} for row in amounts] == [
        {k: row[k] for k in ("account", "product", "currency")} for row in rows
    ]
    assert summary["totals"] == {
        "USD": {"before": "204.5", "after": "275.75", "difference": "71.25"}
    }
    assert summary["storedBills"]["missing"] == 2


def test_the_picture_is_one_file_of_svg(priced, tmp_path, capsys):
    home, file = priced
    picture = tmp_path / "who.svg"
    code, _ = shown(home, capsys, "--with", file, *MONTH, "--picture", str(picture))

    assert code == 0
    text = picture.read_text("utf-8")
    assert "href" not in text
    texts = {each.text for each in ET.fromstring(text).iter() if each.tag.endswith("text")}
    assert {"acme", "+21.25", "204.50 → 275.75 USD"} <= texts
    assert "2 pay more · 0 pay less · 0 pay the same" in texts


@pytest.mark.slow
def test_accounts_that_cannot_be_billed_are_in_neither_side(priced, capsys):
    home, file = priced
    refuse_bills(home, "bolt")
    _, [*rows, summary] = lines_of(home, capsys, "what-if", "--with", file, *MONTH)

    assert {each["account"] for each in rows} == {"acme"}
    assert [(e["month"], e["account"], e["side"]) for e in summary["notPriced"]] == [
        ("2026-09", "bolt", "before"),
        ("2026-09", "bolt", "after"),
    ]
    _, output = shown(home, capsys, "--with", file, *MONTH)
    assert "bolt in 2026-09 (before): " in output.out


@pytest.mark.slow
def test_stored_bills_that_differ_from_before_are_named(priced, capsys):
    home, file = priced
    _, made = lines_of(home, capsys, "--month", "2026-09")
    _, [*_, summary] = lines_of(home, capsys, "what-if", "--with", file, *MONTH)
    assert summary["storedBills"]["same"] == 2
    use(home, ("late", "acme", 1))

    _, [*rows, summary] = lines_of(home, capsys, "what-if", "--with", file, *MONTH)

    [acme] = [each["id"] for each in made if each.get("account") == "acme"]
    assert summary["storedBills"]["different"] == [acme]
    assert rows[1]["before"] == 43.5
    _, output = shown(home, capsys, "--with", file, *MONTH)
    assert "1 stored bill differs from what is called before" in output.out
    assert acme in output.out
