"""Billing as people meet it: plans through the SDK, bills on the command line."""

import json
import re
from decimal import Decimal

import pytest

from meterlake.cli import run
from tests.served import served

D = Decimal

NO_PERIODS = "the plan 'odd' of the frequency AD_HOC has no billing periods"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("billing") / "home"
    with served(home) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk() as client:
        yield client


@pytest.fixture(scope="module")
def template(sdk):
    """A template of monthly plans at 310 USD a month."""
    product = sdk.products.create(code="cloud", name="Cloud")
    return sdk.plan_templates.create(
        code="cloud",
        name="Cloud",
        product_id=product.id,
        currency="USD",
        standing_charge=310,
        bill_frequency="MONTHLY",
    )


def a_plan(sdk, template, code):
    return sdk.plans.create(code=code, name=code.title(), plan_template_id=template.id)


def an_account(sdk, code, **more):
    address = f"bills@{code}.example"
    return sdk.accounts.create(code=code, name=code.title(), email_address=address, **more)


def billed(server, capsys, month, account):
    """The JSON lines of the command, by their type."""
    at = ["--home", str(server.settings.home), "--json"]
    code = run(["bill", "--month", month, "--account", account, *at])
    lines = [
        json.loads(line, parse_float=D, parse_int=D)
        for line in capsys.readouterr().out.split("\n")[:-1]
    ]
    return code, {
        kind: [each for each in lines if each["type"] == kind] for kind in ("bill", "failure")
    }


def test_a_plan_that_changes_at_noon_costs_a_month_once(server, sdk, template, capsys):
    account = an_account(sdk, "noon")
    noon = "2025-01-16T12:00:00Z"
    times = {"first": {"end_date": noon}, "second": {"start_date": noon}}
    for code, time in times.items():
        sdk.account_plans.create(
            account_id=account.id,
            plan_id=a_plan(sdk, template, code).id,
            **{"start_date": "2024-06-01T00:00:00Z", **time},
        )

    code, lines = billed(server, capsys, "2025-01", "noon")

    assert code == 0
    assert [each["total"] for each in lines["bill"]] == [310]


@pytest.mark.long
def test_a_bill_epoch_is_the_first_bill_date(server, sdk, template, capsys):
    account = an_account(sdk, "epoch")
    sdk.account_plans.create(
        account_id=account.id,
        plan_id=a_plan(sdk, template, "from-january").id,
        start_date="2022-01-01T00:00:00Z",
        end_date="2023-01-01T00:00:00Z",
        bill_epoch="2022-02-15",
    )
    found = {}
    for month in ("2022-01", "2022-02", "2022-03"):
        code, lines = billed(server, capsys, month, "epoch")
        assert (code, lines["failure"]) == (0, [])
        found |= {each["billDate"]: each["total"] for each in lines["bill"]}

    # 14 of 31 days until 15 January, and a month until the first bill date.
    assert found == {"2022-02-15": 450, "2022-03-15": 310}


@pytest.mark.long
def test_a_bill_epoch_of_the_account_counts_for_its_plans(server, sdk, template, capsys):
    account = an_account(sdk, "epochs", bill_epoch="2022-02-15")
    sdk.account_plans.create(
        account_id=account.id,
        plan_id=a_plan(sdk, template, "of-account").id,
        start_date="2022-01-15T00:00:00Z",
    )
    at = ["--home", str(server.settings.home), "--json"]

    assert billed(server, capsys, "2022-01", "epochs")[1]["bill"] == []
    [first] = billed(server, capsys, "2022-02", "epochs")[1]["bill"]
    assert (first["billDate"], first["total"]) == ("2022-02-15", 310)
    # Another first bill date makes another bill; on the one that was made nothing stays.
    sdk.accounts.update(
        id=account.id,
        code="epochs",
        name="Epochs",
        email_address="bills@epochs.example",
        bill_epoch="2022-02-20",
        version=1,
    )
    again = billed(server, capsys, "2022-02", "epochs")[1]["bill"]
    assert {each["billDate"]: each["total"] for each in again} == {
        "2022-02-15": 0,
        "2022-02-20": D("360"),
    }
    assert run(["aggregate", "--month", "2022-01", *at]) == 0


@pytest.fixture(scope="module")
def tiles(sdk, template, server, tmp_path_factory):
    """Three accounts used 80,875 tiles, which are priced by the thousand; one on an odd plan."""
    meter = sdk.meters.create(
        code="maps",
        name="Maps",
        data_fields=[{"category": "MEASURE", "code": "n", "name": "Tiles", "unit": "tiles"}],
        derived_fields=[],
    )
    aggregation = sdk.aggregations.create(
        code="tiles",
        name="Tiles",
        meter_id=meter.id,
        target_field="n",
        aggregation="SUM",
        rounding="NONE",
        quantity_per_unit=1000,
        unit="1k tiles",
    )
    plan = a_plan(sdk, template, "maps")
    # Its bills do not come by periods.
    unbilled = sdk.plan_templates.create(
        code="odd",
        name="Odd",
        product_id=template.product_id,
        currency="USD",
        standing_charge=0,
        bill_frequency="AD_HOC",
    )
    odd = a_plan(sdk, unbilled, "odd")
    for each in (plan, odd):
        sdk.pricings.create(
            plan_id=each.id,
            aggregation_id=aggregation.id,
            start_date="2025-01-01T00:00:00Z",
            cumulative=True,
            pricing_bands=[{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
        )
    plans = {"unbilled": odd, "mapped": plan}
    for code in ("unbilled", "planless", "mapped"):
        account = an_account(sdk, code)
        if code in plans:
            sdk.account_plans.create(
                account_id=account.id, plan_id=plans[code].id, start_date="2025-01-01T00:00:00Z"
            )
    file = tmp_path_factory.mktemp("maps") / "maps.csv"
    rows = [
        f"maps,{code},{code},2025-03-05T00:00:00Z,80875\n"
        for code in ("unbilled", "planless", "mapped")
    ]
    file.write_text("meter,account,uid,ts,measure.n\n" + "".join(rows))
    assert run(["ingest", str(file), "--home", str(server.settings.home), "--json"]) == 0
    return file


@pytest.mark.long
@pytest.mark.usefixtures("tiles")
def test_usage_of_a_plan_without_bills_is_shown_with_the_reason(server, capsys):
    capsys.readouterr()
    at = ["--month", "2025-03", "--home", str(server.settings.home)]
    assert run(["bill", *at, "--json"]) == 0
    lines = [json.loads(each, parse_float=D) for each in capsys.readouterr().out.splitlines()]
    found = {each["accountCode"]: each for each in lines if each["type"] == "unpriced"}

    assert {code: each["reason"] for code, each in found.items()} == {
        "unbilled": "NoBillingPeriods",
        "planless": "NoAccountPlan",
    }
    assert found["unbilled"]["detail"] == NO_PERIODS
    # The raw quantity and what a price would be for, each with its own unit.
    names = ("quantity", "quantityUnit", "units", "unit")
    assert [found["unbilled"][name] for name in names] == [80875, "tiles", D("80.875"), "1k tiles"]
    assert run(["bill", *at]) == 0
    out = capsys.readouterr().out
    [line] = [each for each in out.splitlines() if "unbilled" in each and "tiles" in each]
    assert "80,875 tiles" in line
    assert "80.875 × 1k tiles" in line
    assert f"NoBillingPeriods: {NO_PERIODS}" in line


@pytest.mark.long
@pytest.mark.usefixtures("tiles")
def test_raw_quantities_and_priced_units_have_their_own_units(server, capsys, tmp_path):
    at = ["--home", str(server.settings.home)]
    assert run(["aggregate", "--month", "2025-03", "--json", *at]) == 0
    lines = [json.loads(each, parse_float=D) for each in capsys.readouterr().out.splitlines()]
    [one] = [each for each in lines if each["account"] == "mapped"]
    assert (one["quantity"], one["quantityUnit"]) == (80875, "tiles")
    assert (one["units"], one["unit"]) == (D("80.875"), "1k tiles")

    assert run(["explain", "quantity", "mapped", "tiles", "2025-03", *at]) == 0
    out = capsys.readouterr().out
    assert "80,875 tiles" in out
    assert "80.875 × 1k tiles" in out

    order = ["backfill", "start", "retract", "--source", "maps.csv", "--reason", "wrong"]
    assert run([*order, *at]) == 0
    out = capsys.readouterr().out
    [line, *_] = [each for each in out.splitlines() if "mapped" in each and "1k" in each]
    assert "80,875 tiles" in line
    assert "80.875 × 1k tiles" in line

    assert run(["report", "--month", "2025-03", "--out", str(tmp_path / "r.html"), *at]) == 0
    text = (tmp_path / "r.html").read_text("utf-8")
    row = next(each for each in text.split("<tr>") if ">tiles<" in each and "1k tiles" in each)
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", row)
    # The sum over three accounts, in both units.
    assert cells == ["2025-03", "tiles", "3", "242,625", "tiles", "242.625", "1k tiles"]


@pytest.fixture(scope="module")
def rendered(sdk, template, server, tmp_path_factory):
    """An account whose files are priced by average, by the largest, and in bands over the plan."""
    meter = sdk.meters.create(
        code="files",
        name="Files",
        data_fields=[{"category": "MEASURE", "code": "s", "name": "Seconds"}],
        derived_fields=[],
    )
    shape = {"rounding": "NONE", "quantity_per_unit": 1, "unit": "second"}
    measured = {"meter_id": meter.id, "target_field": "s", **shape}
    for code, kind in {"seconds": "SUM", "files": "COUNT"}.items():
        sdk.aggregations.create(code=code, name=code.title(), aggregation=kind, **measured)
    largest = sdk.aggregations.create(
        code="largest",
        name="Largest",
        aggregation="CUSTOM_SQL",
        custom_sql="SELECT max(s) FROM measurements",
        **measured,
    )
    average = sdk.compound_aggregations.create(
        code="average",
        name="Average",
        calculation="aggregation.seconds / aggregation.files",
        **shape,
    )
    [seconds] = [each for each in sdk.aggregations.list() if each.code == "seconds"]
    plan = a_plan(sdk, template, "rendered")
    first, then = ({"lowerLimit": limit, "fixedPrice": 0} for limit in (0, 20))
    bands = [{**first, "unitPrice": 1}, {**then, "unitPrice": 10}]
    for metric in (
        {"aggregation_id": largest.id},
        {"compound_aggregation_id": average.id},
        {"aggregation_id": seconds.id, "tiers_span_plan": True, "cumulative": True},
    ):
        sdk.pricings.create(
            plan_id=plan.id, start_date="2025-01-01T00:00:00Z", pricing_bands=bands, **metric
        )
    account = an_account(sdk, "rendered")
    sdk.account_plans.create(
        account_id=account.id, plan_id=plan.id, start_date="2025-01-01T00:00:00Z"
    )
    rows = {"2025-01-10": (8, 4), "2025-02-10": (12, 3, 6)}
    lines = [
        f"files,rendered,r{day}{n},{day}T00:00:00Z,{s}\n"
        for day, values in rows.items()
        for n, s in enumerate(values)
    ]
    file = tmp_path_factory.mktemp("files") / "files.csv"
    file.write_text("meter,account,uid,ts,measure.s\n" + "".join(lines))
    assert run(["ingest", str(file), "--home", str(server.settings.home), "--json"]) == 0
    return average


@pytest.mark.long
def test_compounds_sql_and_bands_over_the_plan_are_lines_of_the_sdk(server, sdk, rendered, capsys):
    capsys.readouterr()
    for month in ("2025-01", "2025-02"):
        code, lines = billed(server, capsys, month, "rendered")
        assert (code, lines["failure"]) == (0, [])
    [bill] = lines["bill"]
    found = {
        each.description: each
        for each in sdk.bills.line_items.list(bill_id=bill["id"])
        if each.line_item_type == "USAGE"
    }

    # 12 seconds in January, 21 in February: 8 more for 1, 13 for 10.
    assert {name: (each.quantity, each.subtotal) for name, each in found.items()} == {
        "Average": (7, 7),
        "Largest": (12, 12),
        "Seconds": (21, 8 + 130),
    }
    assert found["Average"].compound_aggregation_id == rendered.id
    assert (found["Average"].aggregation_id, found["Average"].meter_id) == (None, None)
    assert [(each.band_units, each.band_subtotal) for each in found["Seconds"].band_usage] == [
        (8, 8),
        (13, 130),
    ]
