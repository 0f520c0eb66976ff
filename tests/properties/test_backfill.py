"""Laws of backfills: retract then re-ingest, and revert then apply, are the identity."""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from tests.homes import HEADER, csv_row, new_home, open_home

uids = st.sampled_from(["", *"abcd"])
rows = st.lists(
    st.tuples(
        uids, st.sampled_from(["1", "2", "x"]), st.sampled_from(["2026-08-31", "2026-09-01"])
    ),
    min_size=1,
    max_size=6,
)


def text(found):
    return HEADER + "".join(csv_row(uid, gb, ts=f"{day}T12:00:00Z") for uid, gb, day in found)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "home"
    return path, new_home(path)


def state(home):
    return home.measurements(of_source=True), home.uids()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(files=st.lists(rows, min_size=1, max_size=3), which=st.integers(0, 2))
def test_what_is_withdrawn_comes_back_as_it_was(template, files, which):
    path, org_id = template
    copy = Path(shutil.copytree(path, path.with_name(uuid4().hex)))
    with open_home(copy, org_id) as home:
        organization = home.stores.organization(org_id)
        texts = [text(found) for found in files]
        for number, each in enumerate(texts):
            home.ingest(f"{number}.csv", each)
        before = state(home)
        chosen = which % len(files)
        identity = home.query(
            f"SELECT identity FROM lake.source WHERE name = '{chosen}.csv' ORDER BY attempt LIMIT 1"
        )[0][0]
        if not home.query(f"SELECT 1 FROM lake.uid_index WHERE source = '{identity}'"):
            return
        order = Order(BackfillSpec(Mode.RETRACT, "law", source=identity), "ann", "law")
        backfill.start(organization, order)
        backfill.apply(organization, "law", "ann")
        after = state(home)
        home.check()
        backfill.revert(organization, "law", "ann")
        assert state(home) == before
        backfill.restart(organization, "law", "ann")
        backfill.apply(organization, "law", "ann")
        assert state(home) == after
        home.ingest(f"{chosen}.csv", texts[chosen])
        # A row whose uid another row of the file had may be the first one now.
        assert home.uids() == before[1]
        home.check()
        assert check_reconciliation(organization).balanced
    shutil.rmtree(copy)
