"""A process that corrects stored measurements dies at every step; the next one ends its work."""

import pytest

from tests.e2e.backfilling import derivable, prepared
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.every_lake import IN_S3_TOO
from tests.homes import configure, new_home, open_home
from tests.integration.pipeline.backfill.test_retract import SUM

pytestmark = IN_S3_TOO
# What each mode does in a home, and how the home is made.
MODES = {
    "retracted": prepared,
    "rederived": derivable,
    "replaced": prepared,
    "reaggregated": prepared,
}
MARKING = ("lifecycle", "edits", "retract", "rederive", "partitions", "replace", "reaggregate")
# When the lake has it and nobody else knows; all other steps are slower.
COMMIT = ("lake.after_commit",)
# Of a source that came in once more, the ledger has an attempt more for each time.
ALIKE = ("measurements", "uids", "accounts", "status", "steps", "retracted", "errors")


@pytest.fixture(scope="module")
def processes(lake_location):  # noqa: ARG001
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    def of(mode):
        if mode not in made:
            home = tmp_path_factory.mktemp("crash") / "template"
            org_id = new_home(home)
            with open_home(home, org_id) as opened:
                configure(opened.stores.organization(org_id), aggregations=[SUM])
                MODES[mode](opened)
            made[mode] = Lives(processes, home, org_id, f"tests.e2e.backfilling:{mode}")
        return made[mode]

    made = {}
    return of


@pytest.mark.slow
def test_every_step_that_the_sources_mark_is_met(lives):
    steps = marked(*(f"pipeline/backfill/{name}.py" for name in MARKING)) - {"backfill.dropped"}
    met = {step for mode in MODES for step in lives(mode).undisturbed["reached"]}

    assert len(steps) == 11
    assert steps <= met
    for mode in MODES:
        assert lives(mode).undisturbed["state"]["status"] == "APPLIED"


@pytest.mark.slow
def test_after_a_crash_the_next_process_ends_a_replacement(lives):
    assert lives("replaced").broken(lives("replaced").last_steps(*COMMIT), ALIKE) == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_no_crash_at_any_step_changes_anything(lives, mode, lake_location):
    steps = lives(mode).chosen_steps(lake_location, "backfill.", "lake.", "ingest.")

    assert lives(mode).broken(steps, ALIKE) == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_two_crashes_change_nothing_either(lives, mode, lake_location):
    pairs = lives(mode).some_pairs(4 if lake_location == "folder" else 2)

    assert lives(mode).broken(pairs, ALIKE) == []
