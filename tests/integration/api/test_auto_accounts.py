"""Accounts that batches bring along: made once, whoever brings them at the same moment."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.stores import open_stores
from tests.homes import EGRESS, configure, settings, wire_row
from tests.served import served

BATCHES = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("skeletons") / "home"
    # Each batch closes its segment: sixteen sources bring the same new accounts.
    with served(home, segment_seconds=0.01, segment_bytes=1) as running:
        configure(running.organization, meters=[EGRESS])
        yield running


def submit(server, number):
    rows = [
        wire_row(f"one-{number}", account="Brand New"),
        wire_row(f"two-{number}", -number, account="second"),
        wire_row(f"near-{number}", account="brandnew"),
    ]
    with server.http() as http:
        return http.post("/measurements", json={"measurements": rows}).status_code


def ingest(server):
    """As a worker of its own does, beside others."""
    folder = server.organization.segment_folder
    found = []
    with open_stores(settings(server.stores.home)) as stores:
        give_up = time.monotonic() + 60
        while any(folder.open.iterdir()) or folder.waiting():
            assert time.monotonic() < give_up
            found += ingest_segments(stores.organization(server.org_id))
            time.sleep(0.01)
    return found


@pytest.mark.long
def test_sixteen_batches_at_once_make_each_new_account_once(server):
    with ThreadPoolExecutor(BATCHES) as pool:
        answers = list(pool.map(lambda number: submit(server, number), range(BATCHES)))
    assert answers == [httpx.codes.OK] * BATCHES
    receipts = ingest(server)

    assert sum(each.accepted for each in receipts) == 2 * BATCHES
    assert sum(each.reasons.get("InvalidAccountCode", 0) for each in receipts) == BATCHES
    assert sum(each.new_accounts for each in receipts) == 2
    accounts = {each.code: each for each in server.sdk().accounts.list()}
    assert sorted(accounts) == ["Brand New", "second"]
    for code, account in accounts.items():
        assert account.name == f"{code}-autocreated"
        assert re.fullmatch(r"[0-9a-f]{16}-autocreated@example\.com", account.email_address)
        assert account.version == 1
