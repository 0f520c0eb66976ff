"""kill -9 while a proposal is applied: it is applied with all of its changes, or waits with none."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from meterlake.model.resources.change_proposals import ProposalStatus
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.change_proposals import (
    ChangeOrder,
    approve_proposal,
    proposal_named,
    propose_change_set,
)
from tests.bills import a_home_to_bill

# Dies before the n-th statement that writes; the last one of all is the commit.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from meterlake.pipeline.config.change_proposals import apply_proposal
from tests.homes import open_home

home, org, id_, nth = *sys.argv[1:4], int(sys.argv[4])
left = nth

def count(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def statement(connection, cursor, text, *_):
    if text.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")):
        count()

with open_home(Path(home), org) as found:
    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", count)
    apply_proposal(found.organization, "ann", id_)
print(nth - left)
"""
CHANGES = {
    "products": [{"code": "support", "name": "Support"}, {"code": "cloud", "name": "The cloud"}],
    "planTemplates": [
        {
            "code": "support",
            "name": "Support",
            "productId": "support",
            "currency": "USD",
            "standingCharge": 5,
            "billFrequency": "MONTHLY",
        }
    ],
}


def apply_and_die(home, proposal, nth):
    """Apply a proposal in a process that dies at its n-th write; how many it made, if it lived."""
    arguments = [str(home.stores.home), home.org_id, proposal["id"], str(nth)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def stored(home):
    """Everything of the organization, by id and version."""
    return home.organization.configuration().versions()


@pytest.mark.slow
def test_a_death_while_a_proposal_is_applied_leaves_nothing_of_it(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        order = ChangeOrder("Support", "A new product", [Document("support", CHANGES)])
        made = propose_change_set(home.organization, "ann", order)
        approve_proposal(home.organization, "bob", made["id"])
        before = stored(home)
        deaths = 0
        while apply_and_die(home, made, deaths + 1) is None:
            deaths += 1
            found = proposal_named(home.organization, made["id"])
            assert (stored(home), found.status) == (before, ProposalStatus.APPROVED), deaths

        # Products, their histories, references and events, and the proposal with its act.
        assert deaths >= 6
        found = proposal_named(home.organization, made["id"])
        assert found.status is ProposalStatus.APPLIED
        assert len(stored(home)) == len(before) + 2
