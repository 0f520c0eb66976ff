"""Operational exports of what changed from an instant on."""

import gzip
import json
import tracemalloc
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.plans import Plan, PlanTemplate, Pricing
from meterlake.model.customers.accounts import Account
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import export, run_export, submit_export
from meterlake.settings import Settings
from meterlake.stages.export.exported_columns import exports_of
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills import bills
from tests.databases import copy_home
from tests.doubles.homes import Clock, Home

pytest_plugins = ["tests.doubles.fixtures"]


def rows(home, type, **more):
    """The rows of one type of export, by id where they have one."""
    request = ExportRequest(source=Source.OPERATIONAL, format=Format.JSONL, types=(type,), **more)
    exported = export(home.organization, request)
    [file] = exported.manifest["files"]
    text = gzip.decompress(Path(exported.url, file["key"]).read_bytes()).decode()
    found = [json.loads(line, parse_float=Decimal) for line in text.splitlines()]
    assert file["rows"] == len(found)
    return found


def update(home, kind, id, **changes):
    with home.organization.transaction("test") as t:
        before = t.get(kind, id)
        entity = kind.from_wire(before.entity.to_wire() | changes)
        return t.update(id, before.version, entity)


def only(home, kind):
    [record] = home.organization.configuration().all(kind)
    return record


def tick(home):
    """The instant from which on changes are looked for."""
    home.clock.later(hours=1)
    since = home.clock()
    home.clock.later(hours=1)
    return since


def test_nothing_changed_is_no_row(home):
    since = tick(home)
    request = ExportRequest(source=Source.OPERATIONAL, format=Format.CSV, changes_since=since)
    files = export(home.organization, request).manifest["files"]

    assert {file["rows"] for file in files} == {0}
    assert {file["columns"][-1]["name"] for file in files} == {"deleted"}
    assert len(files) == len(exports_of(Source.OPERATIONAL))


def test_the_instant_itself_counts(home):
    template = only(home, PlanTemplate)
    just_then, later = template.modified, template.modified + timedelta(microseconds=1)

    assert len(rows(home, "planTemplates", changes_since=just_then)) == 1
    assert rows(home, "planTemplates", changes_since=later) == []


def test_what_is_computed_of_others_counts_as_a_change(home):
    since = tick(home)
    with home.organization.transaction("test") as t:
        other = t.create(Product.from_wire({"name": "Other", "code": "other"}))
    update(home, PlanTemplate, only(home, PlanTemplate).id, productId=other.id)

    [plan] = rows(home, "plans", changes_since=since)
    [account_plan] = rows(home, "accountPlans", changes_since=since)
    assert plan["productId"] == account_plan["productId"] == other.id
    assert plan["version"] == only(home, Plan).version == 1


def test_bands_that_are_gone_are_told(home):
    pricing = only(home, Pricing)
    two = [
        {"lowerLimit": limit, "fixedPrice": 0, "unitPrice": 1, "id": f"band-{limit}"}
        for limit in (0, 10)
    ]
    update(home, Pricing, pricing.id, pricingBands=two)
    since = tick(home)
    update(home, Pricing, pricing.id, pricingBands=two[:1])
    first, second = rows(home, "pricingBands", changes_since=since)

    assert (first["id"], first["version"]) == ("band-0", 3)
    assert "deleted" not in first
    assert (second["id"], second["pricingId"]) == ("band-10", pricing.id)
    assert second["deleted"] == second["dtLastModified"] > since.isoformat()
    assert "unitPrice" not in second

    with home.organization.transaction("test") as t:
        t.delete(Pricing, pricing.id)
    gone = rows(home, "pricingBands", changes_since=since)
    assert [(row["sequenceNumber"], "deleted" in row) for row in gone] == [(1, True), (2, True)]
    assert rows(home, "pricingBands") == []


def test_bills_come_with_all_their_lines(home):
    [bill] = rows(home, "bills")
    since = tick(home)
    assert rows(home, "billLineItems", changes_since=since) == []
    with home.organization.transaction("test") as t:
        bills.set_status(t, bill["id"], BillStatus.APPROVED)

    [changed] = rows(home, "bills", changes_since=since)
    lines = rows(home, "billLineItems", changes_since=since)
    assert (changed["id"], changed["status"]) == (bill["id"], "APPROVED")
    assert [line["billId"] for line in lines] == [bill["id"]] * 2
    assert lines == rows(home, "billLineItems")
    assert len({line["id"] for line in lines}) == 2


def test_a_job_that_runs_late_shows_what_was_there_when_it_was_asked_for(home):
    request = ExportRequest(
        source=Source.OPERATIONAL, format=Format.JSONL, types=("products", "accounts")
    )
    job_id = submit_export(home.organization, request)
    home.clock.later(hours=1)
    with home.organization.transaction("test") as t:
        t.create(Product.from_wire({"name": "Late", "code": "late"}))
    update(home, Account, home.accounts["acme"], name="Renamed")
    exported = run_export(home.stores, job_id)

    content = {
        file["type"]: gzip.decompress(Path(exported.url, file["key"]).read_bytes())
        for file in exported.manifest["files"]
    }
    assert b"Late" not in content["product"]
    assert b"Renamed" not in content["account"]


@pytest.mark.parametrize("format_", [Format.JSONL, Format.CSV])
def test_large_types_are_several_files(home, format_):
    with home.organization.transaction("test") as t:
        for number in range(40):
            t.create(Product.from_wire({"name": "P", "code": f"p{number:02}"}))
    files, whole = {}, {}
    for found, size in ((whole, None), (files, 2048)):
        request = ExportRequest(
            source=Source.OPERATIONAL,
            format=format_,
            types=("products", "accounts"),
            file_bytes=size,
        )
        exported = export(home.organization, request)
        for file in exported.manifest["files"]:
            content = gzip.decompress(Path(exported.url, file["key"]).read_bytes())
            found.setdefault(file["type"], []).append((file, content.splitlines(keepends=True)))

    [(_, [*expected])] = whole["product"]
    header = expected[:1] if format_ is Format.CSV else []
    pieces = [content for _, content in files["product"]]
    names = [file["key"].rpartition("_")[2] for file, _ in files["product"]]
    assert len(pieces) >= 3
    assert names[:2] == [f"product-000{n}{format_.suffix}" for n in (1, 2)]
    assert all(piece[: len(header)] == header for piece in pieces)
    assert header + [line for piece in pieces for line in piece[len(header) :]] == expected
    # A file ends with the row with which it is large enough.
    assert all(2048 <= len(b"".join(piece)) < 2600 for piece in pieces[:-1])
    assert sum(file["rows"] for file, _ in files["product"]) == 41
    assert [file["key"].rpartition("_")[2] for file, _ in files["account"]] == [
        f"account{format_.suffix}"
    ]


@pytest.mark.slow
def test_memory_does_not_hold_all_entities(home):
    with home.organization.transaction("test") as t:
        for number in range(10_000):
            t.create(Product.from_wire({"name": "P", "code": f"p{number}"}))
    request = ExportRequest(source=Source.OPERATIONAL, format=Format.JSONL, types=("products",))
    tracemalloc.start()
    export(home.organization, request)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # So many records take more than ten times as much.
    assert most < 8 << 20


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "update", "delete"]), st.integers(0, 5)), max_size=6
)


@pytest.fixture(scope="module")
def shared(home_template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes") / "home"
    copy_home(home_template, folder)
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        yield Home.of(stores, clock)


@pytest.mark.long
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=STEPS, after=STEPS)
def test_a_copy_that_applies_the_changes_is_the_full_export(shared, before, after):
    """The law of incremental exports: full now = full then + changes since then."""
    play(shared, before)
    copy = {row["id"]: row for row in rows(shared, "products")}
    since = tick(shared)
    play(shared, after)
    for row in rows(shared, "products", changes_since=since):
        if "deleted" in row:
            copy.pop(row["id"], None)
        else:
            copy[row["id"]] = row

    assert copy == {row["id"]: row for row in rows(shared, "products")}


def play(home, steps):
    for step, number in steps:
        home.clock.later(seconds=1)
        known = rows_now(home)
        with home.organization.transaction("test") as t:
            if step == "create" or not known:
                code = f"made-{home.clock().timestamp()}"
                t.create(Product.from_wire({"name": "P", "code": code}))
                continue
            record = known[number % len(known)]
            if step == "update":
                document = record.entity.to_wire() | {"name": f"at {home.clock()}"}
                t.update(record.id, record.version, Product.from_wire(document))
            else:
                t.delete(Product, record.id)


def rows_now(home):
    """The products that nothing refers to, the oldest first."""
    found = home.organization.configuration().all(Product)
    return sorted(
        (each for each in found if each.entity.code.startswith("made-")), key=lambda r: r.created
    )
