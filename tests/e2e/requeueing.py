"""What a process does that gives rejected rows in again, and what must be the same afterwards."""

from typing import Any

from meterlake.pipeline.rejected.requeue import requeue
from meterlake.stores.lake.rejected import RejectedFilter


def requeued(home: Any) -> dict[str, Any]:
    """Give all open rows in again; what there is then."""
    requeue(home.organization, RejectedFilter())
    tries = home.query("SELECT row, part, attempt, tries FROM lake.requeue ORDER BY ALL")
    assert len(set(tries)) == len(tries)
    lake = home.organization.lake_folder
    assert [each.name for each in (lake / "requeue").iterdir()] == ["requeue.lock"]
    kept = len(list((lake / "sources").rglob("requeue-*.ndjson")))
    assert kept == len(home.ledger()) - 1
    return {
        "mended": sorted(
            home.query(
                "SELECT q.row FROM lake.requeue q ANTI JOIN lake.rejected x"
                " ON x.identity = q.new_identity AND x.row = q.new_row"
            )
        )
    }
