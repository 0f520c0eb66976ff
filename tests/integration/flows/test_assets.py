"""What runs make is seen as assets, with what it was made from."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from meterlake.pipeline.billing.jobs import jobs
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.integration.flows.conftest import drop
from tests.integration.flows.test_flows import usage
from tests.integration.flows.test_runner import rows, sent

pytestmark = pytest.mark.filterwarnings("ignore")


def materialized(since: datetime, *keys: str) -> dict[str, Any]:
    """The events of assets since an instant by their keys, as soon as there is one of each."""
    from prefect.client.orchestration import get_client

    event = "prefect.asset.materialization.succeeded"
    for _ in range(150):
        with get_client(sync_client=True) as client:
            query = {"event": {"name": [event]}, "occurred": {"since": since.isoformat()}}
            body = {"filter": query, "limit": 50}
            found = client.request("POST", "/events/filter", json=body).json()["events"]
        by_key = {each["resource"]["prefect.resource.id"]: each for each in found}
        if set(keys) <= by_key.keys():
            return {key: by_key[key] for key in keys}
        time.sleep(0.2)
    raise AssertionError((keys, list(by_key)))


def upstream(event: Any) -> set[str]:
    """The keys that an asset was made from."""
    return {
        each["prefect.resource.id"]
        for each in event["related"]
        if each["prefect.resource.role"] == "asset"
    }


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_a_month_has_its_measurements_quantities_bills_exports_and_file(home: Path) -> None:
    from flows.bill import bill
    from flows.export import export
    from flows.ingest import ingest
    from flows.publish import publish

    # Other tests make the same assets.
    begun = datetime.now(UTC)
    drop(home, "acme", "a.csv", *usage("1", "2"), "egress,acme,9,2026-09-30T23:59:59Z,1,eu")
    mine: Any = {"home": home, "org": ("acme",)}
    ingest(**mine)
    [billed] = bill(**mine, month="2026-10")
    [exported] = export(**mine, source="usage", month="2026-10")
    publish(**mine)

    month, kinds = "meterlake://acme/2026-10", ("measurements", "quantities", "bills", "exports")
    september, file = "meterlake://acme/2026-09/measurements", "meterlake://acme/all/published"
    found = materialized(begun, *(f"{month}/{kind}" for kind in kinds), september, file)
    of = {kind: found[f"{month}/{kind}"] for kind in kinds}

    assert found[september]["payload"]["rows"] == 1
    assert of["measurements"]["payload"]["rows"] == 2
    assert of["measurements"]["payload"]["files"]["accepted"] == 3
    assert next(iter(of["quantities"]["payload"]["totals"].values())) == "30"
    assert upstream(of["quantities"]) == {f"{month}/measurements"}
    assert of["bills"]["payload"]["rows"] == billed["bills"] == 1
    assert list(of["bills"]["payload"]["totals"]) == ["USD"]
    assert upstream(of["bills"]) == {f"{month}/quantities"}
    assert of["exports"]["payload"]["job"] == exported["job"]
    assert upstream(of["exports"]) == {f"{month}/{kind}" for kind in kinds[:3]}
    assert found[file]["payload"]["rows"]["egress"] == 3
    assert f"{month}/bills" in upstream(found[file])
    snapshots = {each["payload"]["snapshot"] for each in found.values()}
    assert all(isinstance(each, int) for each in snapshots)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_what_uploads_and_bill_jobs_make_are_assets_too(home: Path) -> None:
    from flows.bill_due import bill_due
    from flows.bill_job import bill_job
    from flows.upload_due import upload_due

    begun, key = datetime.now(UTC), "meterlake://acme/2026-10"
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        organization = stores.find_organization("acme")
        for name, uids in (("a.csv", ("1", "2")), ("b.csv", ("2", "3"))):
            sent(organization, name, rows(*uids))
        upload_due(home=home, org=("acme",))
        jobs.create(organization, "test", {"billDate": "2026-11-01"})
        [job] = stores.state.jobs.waiting(organization.id, jobs.KIND)
    measured = materialized(begun, f"{key}/measurements")[f"{key}/measurements"]["payload"]
    [row] = bill_job(home=home, org="acme", job=job.id)
    billed = materialized(begun, f"{key}/bills")[f"{key}/bills"]

    assert (measured["rows"], measured["files"]["accepted"]) == (3, 3)
    assert measured["files"]["repeats"] == 1
    assert billed["payload"]["rows"] == row["bills"] == 1
    assert upstream(billed) == {f"{key}/quantities"}
    again = datetime.now(UTC)
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        jobs.create(organization, "test", {"billDate": "2026-11-01"})
    [due] = bill_due(home=home, org=("acme",))
    assert due["jobs"] == 1
    assert materialized(again, f"{key}/bills")[f"{key}/bills"]["payload"]["rows"] == 1


def test_a_run_that_makes_nothing_has_no_asset(home: Path) -> None:
    from flows.ingested import with_measurements
    from flows.outcome import TaskOutcome
    from flows.parameters import open_home

    with open_home(home) as stores:
        organization = stores.find_organization("acme")
        counts = dict.fromkeys(("received", "accepted", "repeats", "rejected"), 0)

        assert with_measurements(organization, TaskOutcome(counts)).assets == []
