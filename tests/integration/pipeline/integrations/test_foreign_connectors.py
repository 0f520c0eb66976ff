"""Connectors of other people: a distribution that is installed, and seen by its entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CONNECTOR = """
from meterlake.model.configuration.integration_systems import BillOptions, IntegrationSystem
from meterlake.pipeline.integrations.connectors.connector import Exchange, Failed, FailureKind, Sent

class Options(BillOptions):
    book: str

class LedgerConnector:
    declaration = IntegrationSystem(
        name="LEDGER", display_name="Ledger", entity_types=("Bill",), options=Options
    )
    concurrency = 1

    async def send(self, outgoing):
        book = outgoing.config.entity.config_data["book"]
        if book == "closed":
            return Failed(kind=FailureKind.PERIOD_CLOSED, error="the book is closed")
        sent = Exchange(request=f"enter {outgoing.content.entity_type} into {book}", status_code=201)
        return Sent(exchange=sent, external_id=f"{book}-1", url=f"https://ledger.test/{book}")

class Parcels:
    declaration = IntegrationSystem(name="PARCELS", display_name="Parcels", entity_types=("Bill",))
    concurrency = 1
    batch = 3

    async def send(self, outgoing):
        raise AssertionError("runs go out together")

    async def send_many(self, outgoings):
        return [Sent(external_id=f"{n} of {len(outgoings)}") for n, _ in enumerate(outgoings, 1)]

class Thief(LedgerConnector):
    declaration = IntegrationSystem(name="STRIPE", display_name="?", entity_types=("Bill",))

nothing = object()
"""
POINTS = """[meterlake.connectors]
broken = their_ledger:absent
ledger = their_ledger:LedgerConnector
none = their_ledger:nothing
parcels = their_ledger:Parcels
thief = their_ledger:Thief
"""
SCRIPT = """
import base64, json, sys
from pathlib import Path
from meterlake.model.configuration.integration_systems import systems
from meterlake.pipeline.integrations.sender import connectors
from tests.sent_bills import make_runs, put_bill, send_bills
from tests.served import served

OWN = {"AWS", "HTTP", "STRIPE", "STRIPE_TEST", "WEBHOOK"}
assert set(systems()) == set(connectors()) == OWN | {"LEDGER", "PARCELS"}, systems()
assert connectors()["STRIPE"].declaration.display_name == "Stripe"
bill = {"entityType": "Bill"}
with served(Path(sys.argv[1]) / "home") as server, server.http() as client:
    def configure(system, **data):
        body = {**bill, "destination": system, "configData": data}
        return client.post("/integrationconfigs", json=body)

    listed = client.get("/integrationconfigs/available/systems", params=bill).json()
    shown = client.get("/integrationconfigs/available?systemName=LEDGER").json()
    refused = configure("LEDGER")
    made = [configure("parcels")]
    made += [configure("ledger", book=book) for book in ("main", "closed")]
    account = server.sdk().accounts.create(code="a", name="A", email_address="a@b.test")
    for month in range(1, 5):
        put_bill(server, account.id, month, 5)
    make_runs(server)
    runs = send_bills(server)
    [first] = [run for run in runs if run.external_id == "main-1"][:1]
    payload = client.get(f"/integrationruns/logs/{first.id}").json()["Payload"]
    found = {
        "systems": [name in json.dumps(listed) for name in ("LEDGER", "PARCELS")],
        "book": '"book"' in json.dumps(shown),
        "refused": [refused.status_code, "configData.book" in refused.text],
        "made": [each.status_code for each in made],
        "runs": sorted([run.content.destination, run.status.value, run.external_id or run.job.error] for run in runs),
        "log": [each["request"] for each in json.loads(base64.b64decode(payload))["tries"]],
        "url": client.get(f"/integrationruns/{first.id}").json()["url"],
    }
    print(json.dumps(found))
"""
RUNS = [
    *[["LEDGER", "ACCOUNTING_PERIOD_CLOSED", "the book is closed"]] * 4,
    *[["LEDGER", "COMPLETE", "main-1"]] * 4,
    *[["PARCELS", "COMPLETE", each] for each in ("1 of 1", "1 of 3", "2 of 3", "3 of 3")],
]
FOUND = {
    "systems": [True, True],
    "book": True,
    "refused": [400, True],
    "made": [200, 200, 200],
    "runs": RUNS,
    "log": ["enter Bill into main"],
    "url": "https://ledger.test/main",
}


@pytest.mark.slow
def test_an_installed_distribution_is_found_configured_run_and_logged(tmp_path):
    site = tmp_path / "site"
    information = site / "their_ledger-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "their_ledger.py").write_text(CONNECTOR)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-ledger\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(POINTS)
    paths = [str(site), str(Path(__file__).parents[4]), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == FOUND
    for name in ("broken", "none", "thief"):
        assert f"the connector '{name}'" in done.stderr
