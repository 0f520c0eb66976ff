"""What came in, as people see it in the console: over HTTP, with what they may do and no more."""

import json
import re

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.inbox import add_inbox, remove_inbox
from meterlake.pipeline.ingest.rejected_rows import every_rejected
from meterlake.pipeline.rejected.rejected_files import Edit
from meterlake.pipeline.rejected.requeue import requeue_edited
from meterlake.stores.lake.rejected import RejectedFilter
from meterlake.stores.state.ingest.inboxes import Afterwards
from tests.console_world import CONSOLE, a_console
from tests.homes import HEADER, configure, csv_row, wire_row
from tests.late_bills import retract, revert
from tests.people import allow

DATA_IN = f"{CONSOLE}/data-in"
ATTACK = "<img src=x onerror=alert(2)>.csv"
ROWS = HEADER + csv_row("good") + csv_row("bad", "NaN") + csv_row("", meter="unknown")


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A file with rejected rows, one that cannot be read, and one with a hostile name."""
    with a_console(tmp_path_factory.mktemp("console")) as found:
        found.home.ingest("rows.csv", ROWS)
        found.home.ingest("broken.csv", b"uid,ts\n1,2\n")
        found.home.ingest(ATTACK, HEADER + csv_row("x", ATTACK))
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("measurements:retrieve"))
        found.join("catalog@example.com", allow("config:retrieve"))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def cards(page):
    """The figures of the first cards."""
    return re.findall(r'class="figure"><data class="number" value="([^"]*)"', page)


def test_the_page_says_what_came_what_was_refused_and_how_fresh_meters_are(ada):
    ada.go(DATA_IN)

    received, accepted, repeats, rejected = map(int, cards(ada.page.text)[:4])
    assert received == accepted + repeats + rejected
    # Another test rejects one, and mends it.
    assert rejected >= 3
    assert "3 still wait for you" in ada.text
    assert "Invalid number 2" in ada.text
    assert "Undefined meter 1" in ada.text
    assert "broken.csv Missing header : no column meter, account" in ada.text
    assert re.search(r"egress (in )?\d+ \w+", ada.text)


def test_a_file_that_is_overdue_stands_on_data_in_and_on_its_month(world, ada):
    file = {"name": "Daily <b>gateway</b>", "pattern": "gate-{date}.csv", "since": "2026-09-30"}
    last = {**file, "name": "Invoices", "pattern": "inv-{month}.csv", "every": "MONTH"}
    config = {"daysBeforeBillDue": 14, "expectedFiles": [file, last]}
    configure(world.home.organization, organizationConfig=config)

    ada.go(DATA_IN)
    assert "Files that are overdue" in ada.text
    assert "<b>gateway" not in ada.page.text
    ada.go(f"{CONSOLE}/months/2026-09")
    assert "Missing file" in ada.text
    assert "inv-2026-09.csv Invoices of 2026-09 was due" in ada.text
    configure(world.home.organization, organizationConfig={"daysBeforeBillDue": 14})


def test_sources_are_filtered_and_lead_to_their_rows(ada):
    ada.go(f"{DATA_IN}/sources?status=failed")
    assert "broken.csv" in ada.text
    assert "rows.csv" not in ada.text
    ada.go(f"{DATA_IN}/sources?nameContains=ROWS")
    [place] = set(re.findall(r'href="(/console/data-in/sources/[0-9a-f]{64})', ada.page.text))
    ada.go(place)

    assert cards(ada.page.text) == ["3", "1", "0", "2"]
    assert f"/console/rejected?source={place.rpartition('/')[2]}" in ada.page.text
    assert "Nothing matches" in ada.go(f"{DATA_IN}/sources?since=2999-01-01")
    ada.go(f"{DATA_IN}/sources?nameContains=rows.csv&format=csv")
    assert ada.page.text.splitlines()[1].startswith(
        'rows.csv,done,3,1,0,0,2,0,"Invalid number 1, Undefined meter 1",'
    )
    ada.go(f"{DATA_IN}/sources/nothing")
    assert ada.page.status_code == 404
    assert "'nothing' not found" in ada.text


def test_the_same_content_under_another_name_says_whose_each_attempt_is(world, ada):
    rows = HEADER + csv_row("storage-1", "3") + csv_row("storage-2", "3")
    world.home.ingest("06-storage.csv", rows)
    world.home.ingest("09-storage-again.csv", rows)
    ada.go(f"{DATA_IN}/sources?nameContains=storage")
    links = dict(
        re.findall(r'href="(/console/data-in/sources/[^"]*)">(0\d)-storage', ada.page.text)
    )
    places = {number: place for place, number in links.items()}

    ada.go(places["09"])
    assert "<h1>09-storage-again.csv</h1>" in ada.page.text
    assert "The same content came as 06-storage.csv, 09-storage-again.csv." in ada.text
    second, first, _ = ada.page.text.split("<section")[1:]
    assert "Attempt 2: 09-storage-again.csv" in second
    assert "back by a backfill" not in second
    assert "Attempt 1: 06-storage.csv" in first
    assert "Take 06-storage.csv back by a backfill" in first
    ada.go(places["06"])
    assert "<h1>06-storage.csv</h1>" in ada.page.text


def test_a_source_says_what_was_mended_what_was_withdrawn_and_which_bills_it_touches(world, ada):
    rows = csv_row("late-1", "3", "bolt") + csv_row("late-2", "many", "bolt")
    world.home.ingest("late-two.csv", HEADER + rows)
    ada.go(f"{DATA_IN}/sources?nameContains=late-two")
    place = re.search(r'href="(/console/data-in/sources/[^"?]*)', ada.page.text)[1]
    ada.go(place)
    assert "1 accepted 0 repeats 1 rejected Invalid number" in ada.text
    [row] = every_rejected(world.home.organization, RejectedFilter(source="late-two.csv"))
    mended = json.dumps(wire_row("late-2", 4, "bolt"))
    done = requeue_edited(world.home.organization, [Edit(str(row.place), mended, "1")], "ann")
    assert [each.accepted for each in done.receipts] == [1]
    ada.go(place)
    assert "1 rejected; 1 mended since" in ada.text
    assert re.search(r"Bills that it touches bolt, 2026-09", ada.text)
    assert "Take it back by a backfill" in ada.text

    name = retract(world.home, "late-two.csv")
    ada.go(place)
    assert f"1 accepted; 1 withdrawn by backfill {name}" in ada.text
    assert "Take it back by a backfill" not in ada.text
    ada.go(DATA_IN)
    assert "1 withdrawn by backfills since" in ada.text
    ada.go(f"{DATA_IN}/sources?sort=rejected&order=DESC")
    assert re.search(r"Read rows\.csv Done 3", ada.text)
    revert(world.home, name)


def test_the_columns_of_a_meter_stand_where_one_brings_a_file(world, ada):
    ada.go(DATA_IN)
    assert "egress measure.gb where.region Template (CSV)" in ada.text
    ada.go(f"{DATA_IN}/template?meter=egress")
    head, example = ada.page.text.splitlines()
    assert head == "meter,account,uid,ts,measure.gb,where.region"
    row = example.replace("customer-code", "acme")
    # The home's clock is behind that of the server.
    row = re.sub(r"2026-\d\d-\d\dT\d\d", "2026-09-05T10", row)
    assert world.home.ingest("from-template.csv", f"{head}\n{row}\n").accepted == 1
    ada.go(f"{DATA_IN}/template?meter=nothing")
    assert ada.page.status_code == 404


def test_names_of_files_are_only_text(ada):
    for page in ("", "/sources"):
        ada.go(f"{DATA_IN}{page}")
        assert ATTACK not in ada.page.text
        assert ATTACK in ada.text


def test_who_may_read_measurements_alone_sees_no_jobs_and_no_late_usage(world):
    reader = world.browser("reader@example.com")
    reader.go(DATA_IN)

    assert reader.page.status_code == 200
    assert "Uploaded files" not in reader.text
    assert "late usage" not in reader.text


def test_who_may_not_read_measurements_is_told_so(world):
    catalog = world.browser("catalog@example.com")
    assert f'href="{DATA_IN}"' not in catalog.page.text
    for page in ("", "/sources", "/sources/00000000"):
        catalog.go(f"{DATA_IN}{page}")
        assert catalog.page.status_code == 403
        assert "no permission for measurements:retrieve" in catalog.text


@pytest.mark.long
def test_an_inbox_is_checked_added_changed_and_removed_on_its_page(world, ada):
    folder = drop_folder(world.home.stores, world.home.organization.code)
    folder.create()
    place = folder.root / "sftp"
    place.mkdir()
    (place / "waits.csv").write_text(HEADER)

    ada.go(f"{DATA_IN}/inboxes")
    send(ada, {"action": "add", "url": "/etc", "afterwards": "move"})
    assert "or a folder of its own below one that the server allows" in ada.text
    assert 'value="/etc"' in ada.page.text
    send(ada, {"action": "check", "url": str(place)})
    assert "answers; there lies: sftp/waits.csv" in ada.text
    send(ada, {"action": "add", "url": str(place), "afterwards": "move"})
    assert f"You added the inbox {place}" in ada.text
    send(ada, {"action": "change", "url": str(place), "afterwards": "leave"})
    assert "Objects stay where they are; added by Ada Lovelace" in ada.text
    ada.press("remove")
    assert f"You removed the inbox {place}" in ada.text
    assert "No inboxes yet" in ada.text


def send(browser, form):
    """Press a button of a form of the page."""
    data = {"csrf": browser.hidden()["csrf"], **form}
    browser.page = browser.client.post(browser.path, data=data)


def test_who_may_only_read_is_offered_no_inbox(world):
    reader = world.browser("reader@example.com")
    reader.go(f"{DATA_IN}/inboxes")

    assert reader.page.status_code == 200
    assert 'name="url"' not in reader.page.text


def test_inboxes_are_shown_with_who_added_them(world, ada, tmp_path):
    add_inbox(world.home.organization, str(tmp_path), Afterwards.LEAVE, "USER_1")
    ada.go(f"{DATA_IN}/inboxes")

    assert f"{tmp_path} Objects stay where they are; added by somebody who left." in ada.text
    assert "No object arrived yet." in ada.text
    remove_inbox(world.home.organization, str(tmp_path))
