"""Backfills in the console: staged from a form, looked at, applied, taken back, by whom."""

import re
from decimal import Decimal

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from meterlake.pipeline.backfill.background import BACKFILL_STEPS
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, csv_row, ndjson, wire_row
from tests.people import allow

BACKFILLS = f"{CONSOLE}/backfills"
REASON = "sent <b>twice</b>"


# Sorted by meter they would come in another order.
TWO_METERS = (
    ("egress", "m1", "2026-09-03T00:00:00Z"),
    ("egress", "m3", "2026-09-05T00:00:00Z"),
    ("calls", "m2", "2026-09-04T00:00:00Z"),
)


def _row(meter, uid, ts):
    measured = {"measure": {"gb": 1}}
    if meter == "calls":
        measured = {"measure": {"n": 1}, "cost": {"own": 1}, "metadata": {"key": "k"}, "where": {}}
    return wire_row(uid, account="bolt", ts=ts, meter=meter, **measured)


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.home.ingest("twice.csv", HEADER + csv_row("t1", "10") + csv_row("t2", "5"))
        found.home.ingest("two-meters.ndjson", ndjson([_row(*each) for each in TWO_METERS]))
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


def work(world):
    """One round of the worker."""
    executor = Executor(world.home.stores.settings)
    list(run_round(BACKFILL_STEPS, executor, world.home.organization, lambda: False))


@pytest.mark.long
def test_a_file_is_withdrawn_and_comes_back_by_a_person_with_a_name(world):
    ada = world.browser("ada@example.com")
    ada.go(f"{BACKFILLS}/new?mode=retract&source=twice.csv")
    assert "File or source" in ada.text
    refused = ada.press("start", source="gone.csv", reason=REASON, id="sent-twice")
    assert ada.page.status_code == 400
    assert "gone.csv" in refused
    said = ada.press("start", source="twice.csv", reason=REASON, id="sent-twice")
    assert "nothing is changed yet" in said
    assert ada.path == f"{BACKFILLS}/sent-twice"
    assert "The worker carries out: Stage" in ada.text
    assert 'hx-trigger="every' in ada.page.text
    assert not ada.offers("apply")

    work(world)
    ada.go(ada.path)
    assert "Measurements gone 2" in ada.text
    assert REASON in ada.text
    assert REASON not in ada.page.text
    [bill] = re.findall(r'<a href="/console/bills/[0-9a-f-]{36}">(\w+)</a>', ada.page.text)
    assert bill == "acme"
    assert "57.5 42.5 GB" in ada.text
    [sums] = re.findall(r"1 bill in USD (\S+) USD (\S+) USD (\S+) USD", ada.text)
    before, after, change = map(Decimal, sums)
    assert after - before == change < 0
    file = ada.client.get(f"{BACKFILLS}/sent-twice?format=csv").text.splitlines()
    assert file[0].endswith("segment,before,after")
    assert sum(each.endswith(",57.5,42.5") for each in file) == 1
    assert re.search(r"t1 acme egress .* measure\.gb 10 .* goes", ada.text)
    rows = ada.client.get(f"{BACKFILLS}/sent-twice?format=measurements").text.splitlines()
    assert rows[0].startswith("uid,meter,account,before ")
    assert [each.split(",")[:3] for each in rows[1:]] == [
        [uid, "egress", "acme"] for uid in ("t1", "t2")
    ]

    assert "The worker makes the change" in ada.press("apply")
    work(world)
    ada.go(ada.path)
    assert not ada.offers("apply")
    ada.press("revert")
    work(world)
    ada.go(ada.path)
    assert "Reverted" in ada.text
    for action in ("Stage", "Apply", "Revert"):
        assert f"{action} Ada Lovelace" in ada.text


def test_who_decides_sees_the_file_and_the_measurements_of_all_meters_by_time(world):
    ada = world.browser("ada@example.com")
    query = "SELECT identity FROM lake.source WHERE name = 'two-meters.ndjson'"
    [[source]] = world.home.query(query)
    ada.go(f"{BACKFILLS}/new?mode=retract&source={source}")
    assert "File: two-meters.ndjson" in ada.text
    assert "Or measurements" not in ada.text
    ada.press("start", source=source, reason=REASON, id="two-meters")
    work(world)
    ada.go(ada.path)
    assert "File two-meters.ndjson" in ada.text
    assert "calls 1 , egress 2" in ada.text
    in_order = r"m1 bolt egress .* m2 bolt calls .* m3 bolt egress"
    assert re.search(in_order, ada.text)
    rows = ada.client.get(f"{ada.path}?format=measurements").text.splitlines()
    assert [each.split(",")[0] for each in rows[1:]] == ["m1", "m2", "m3"]

    ada.press("apply")
    work(world)
    ada.go(ada.path)
    assert re.search(in_order, ada.text)
    assert 'href="/console/data-in/late"' in ada.page.text
    ada.go(f"{CONSOLE}/data-in/late")
    assert "backfill two-meters: retract of two-meters.ndjson, applied" in ada.text
    assert f'href="{BACKFILLS}/two-meters"' in ada.page.text
    ada.go(BACKFILLS)
    assert "Retract two-meters.ndjson" in ada.text
    ada.go(f"{BACKFILLS}/two-meters")
    ada.press("revert")
    work(world)
    ada.go(ada.path)
    assert re.search(in_order, ada.text)


def test_files_take_the_place_of_measurements(world):
    ada = world.browser("ada@example.com")
    ada.go(f"{BACKFILLS}/new?mode=replace")
    data = {**ada.hidden("start"), "month": "2026-09", "meters": "egress", "accounts": "acme"}
    rows = HEADER + csv_row("new", "7") + csv_row("bad", "NaN")
    files = [("files", ("new.csv", rows)), ("mapping", ("", b""))]
    ada.page = ada.client.post(str(ada.page.url), data=data, files=files)
    assert ada.path.startswith(f"{BACKFILLS}/")
    assert "new.csv" in ada.text
    work(world)
    ada.go(ada.path)

    assert "Rows of the files that are rejected new.csv" in ada.text or "Invalid number" in ada.text
    assert "Meters egress Customers acme" in ada.text
    assert re.search(r"new acme egress .* new measure\.gb 7", ada.text)
    assert "You dropped the backfill." in ada.press("drop")
    place = ada.path
    ada.go(f"{CONSOLE}/runs?kinds=BACKFILL")
    ada.go(re.search(rf'href="({CONSOLE}/runs/[^"]+)"', ada.page.text)[1])
    assert f'<a href="{place}">What it is about</a>' in ada.page.text
    ada.go(f"{BACKFILLS}?status=DROPPED")
    assert "Replace" in ada.text
    assert "Ada Lovelace" in ada.text


def test_what_the_api_refuses_is_not_offered(world):
    reader = world.browser("reader@example.com")
    reader.go(BACKFILLS)
    assert reader.page.status_code == 200
    assert f'href="{BACKFILLS}/new"' not in reader.page.text
    token = reader.hidden()["csrf"]
    body = {"csrf": token, "action": "start", "source": "twice.csv", "reason": "x"}
    reader.page = reader.client.post(f"{BACKFILLS}/new?mode=retract", data=body)
    assert reader.page.status_code == 403
    reader.go(f"{BACKFILLS}/new?mode=retract")
    assert reader.page.status_code == 403
    reader.go(f"{BACKFILLS}/nothing")
    assert reader.page.status_code == 404


def test_there_are_four_kinds_of_backfills(world):
    ada = world.browser("ada@example.com")
    ada.go(f"{BACKFILLS}/new?mode=none")
    assert ada.page.status_code == 404
