"""Closed months without Python: each file of `closings/` says what is done, and what comes of it.

A step is compared in what the file says about it.
"""

import tomllib
from pathlib import Path

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Conflict
from meterlake.pipeline.billing.late_usage.lists import list_late
from meterlake.pipeline.closing.close_month import ClosingStep
from meterlake.stores.state.billing.bills import bills
from tests.closing_world import a_month_to_close
from tests.homes import HEADER
from tests.late_bills import schedule

pytestmark = pytest.mark.long

CASES = sorted(Path(__file__).parent.glob("closings/*.toml"))


def ingest(world, step):
    rows = [
        world.row(f"{step['name']}-{account}", account, units)
        for account, units in step["usage"].items()
    ]
    world.home.ingest(f"{step['name']}.csv", HEADER + "".join(rows))
    return {}


def look(world, _):
    made = world.look()[ClosingStep.BILL]
    left = {each["account"]: [each["total"], each["wouldBe"]] for each in made.get("left", ())}
    return {"open": made["open"], "totals": made["totals"], "left": left}


def approve(world, _):
    try:
        done = world.approve()[ClosingStep.REVIEW]
    except Conflict as error:
        return {"refused": str(error).replace(str(world.month), "MONTH")}
    return {"approved": done["approved"], "open": done["open"]}


def bill_by_schedule(world, _):
    assert schedule(world.home).failures == []
    found = list_late(world.home.organization)
    return {"late": {each.account_code: [each.status.value, each.difference] for each in found}}


def lock(world, step):
    id_ = world.bills()[step["account"]].id
    with world.home.organization.transaction("bob") as transaction:
        bills.set_status(transaction, id_, BillStatus.APPROVED)
        bills.lock(transaction, id_)
    return {}


def reopen(world, step):
    done = world.reopen(step["reason"])
    return {"taken_back": done.pending_bills, "locked": done.locked_bills}


DONE = {
    "ingest": ingest,
    "look": look,
    "approve": approve,
    "schedule": bill_by_schedule,
    "lock": lock,
    "reopen": reopen,
}
STATES = {
    "bills": lambda world: {
        code: [each.quantity, each.total, each.status] for code, each in world.bills().items()
    },
    "exported": lambda world: world.exported(),
    "published": lambda world: world.published(),
}


@pytest.mark.long
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_closings_come_to_what_their_files_say(path, tmp_path):
    steps = tomllib.loads(path.read_text())["step"]
    with a_month_to_close(tmp_path) as world:
        for number, step in enumerate(steps):
            world.home.clock.advance(minutes=1)
            found = DONE[step["do"]](world, step)
            found |= {name: state(world) for name, state in STATES.items() if name in step}
            expected = {name: step.get(name, {}) for name in found if name in step}
            assert {name: found[name] for name in expected} == expected, number
            assert found.get("left", {}) == step.get("left", {}), number
            assert found.get("refused") == step.get("refused"), number
