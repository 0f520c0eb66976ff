"""Connectors of other people: a distribution that is installed, and seen by its entry point."""

import os
import subprocess
import sys
from pathlib import Path

CONNECTOR = """
from meterlake.model.integration_systems import BillOptions, IntegrationSystem
from meterlake.pipeline.integrations.connectors.connector import Sent

class Options(BillOptions):
    book: str

class LedgerConnector:
    declaration = IntegrationSystem(
        name="LEDGER", display_name="Ledger", entity_types=("Bill",), options=Options
    )
    concurrency = 1

    async def send(self, outgoing):
        return Sent(external_id=f"{outgoing.config.entity.config_data['book']}-1")

class Thief(LedgerConnector):
    declaration = IntegrationSystem(name="STRIPE", display_name="?", entity_types=("Bill",))

nothing = object()
"""
POINTS = """[meterlake.connectors]
broken = their_ledger:absent
ledger = their_ledger:LedgerConnector
none = their_ledger:nothing
thief = their_ledger:Thief
"""
SCRIPT = """
import sys
from pathlib import Path
import pytest
from meterlake.model.errors import Invalid, Required
from meterlake.model.integration_systems import systems
from meterlake.pipeline.integrations.connectors.registry import connectors
from tests.sent_bills import home_with_bills, integrate, make_bills, send_bills

assert sorted(systems()) == ["AWS", "HTTP", "LEDGER", "STRIPE", "STRIPE_TEST", "WEBHOOK"], systems()
assert set(connectors()) == set(systems())
assert connectors()["STRIPE"].declaration.display_name == "Stripe"
with home_with_bills(Path(sys.argv[1])) as home:
    with pytest.raises(Required, match="configData.book"):
        integrate(home, "LEDGER")
    integrate(home, "ledger", book="main")
    make_bills(home)
    print(sorted((run.status.value, run.external_id) for run in send_bills(home)))
"""


def test_an_installed_distribution_adds_a_system(tmp_path):
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

    assert done.stdout.strip() == "[('COMPLETE', 'main-1'), ('COMPLETE', 'main-1')]", done.stderr
    for name in ("broken", "none", "thief"):
        assert f"the connector '{name}'" in done.stderr
