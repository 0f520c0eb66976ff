"""The flow `backfill`: the same parameters as the command; without `apply` nothing changes."""

from pathlib import Path

import pytest

from meterlake.model import failpoint
from meterlake.model.errors import Unavailable
from meterlake.pipeline.backfill import history
from tests.unit.flows.conftest import drop

pytestmark = pytest.mark.usefixtures("prefect")


def test_a_file_is_withdrawn_when_that_is_asked_for(home: Path) -> None:
    from flows.backfill import backfill
    from flows.ingest import ingest
    from flows.outcome import Incomplete

    row = "egress,acme,{0},2026-10-01T00:00:00Z,1,eu"
    drop(home, "acme", "a.csv", row.format(1), row.format(2))
    ingest(home=home, org=("acme",))
    asked = {"home": home, "org": "acme", "source": "a.csv", "reason": "sent twice", "id": "b"}

    [staged] = backfill("retract", **asked)
    [applied] = backfill("retract", **asked, apply=True)

    assert (staged["status"], staged["measurementsGone"]) == ("STAGED", 2)
    assert applied["status"] == "APPLIED"
    with pytest.raises(Incomplete, match=r"acme: NotFound: no source 'gone\.csv'"):
        backfill("retract", **{**asked, "source": "gone.csv"})


def test_tried_again_it_is_the_same_backfill(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import backfill as module
    from flows.parameters import open_home

    left = [Unavailable("lake", "gone")]

    def fail_once(name: str) -> None:
        if name == "backfill.staged" and left:
            raise left.pop()

    monkeypatch.setattr(failpoint, "hook", fail_once)
    quickly = module.correct.with_options(retry_delay_seconds=[0, 0, 0])
    monkeypatch.setattr(module, "correct", quickly)
    month = {"home": home, "org": "acme", "month": "2026-10"}

    [staged] = module.backfill("re-aggregate", **month)

    assert not left
    with open_home(home) as stores:
        found = history(stores, stores.state.organization("acme").id)
    assert [each.id for each in found] == [staged["backfill"]]
