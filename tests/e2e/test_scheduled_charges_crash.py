"""kill -9 while the charges of schedules are made: whoever goes on makes each of them once."""

import pytest

from tests.e2e.billing import plan_charges
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.homes import ACCOUNTS, configure, new_home, open_home

ALL = [f"{code}-{number}" for code in ("fee", "rent") for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("charges")
    org_id = new_home(folder / "template")
    with open_home(folder / "template", org_id) as opened:
        configure(opened.stores.organization(org_id), accounts=ACCOUNTS)
        plan_charges(opened)
    with zygote() as processes:
        yield Lives(
            processes, folder / "template", org_id, "tests.e2e.billing:charged_by_schedules"
        )


@pytest.mark.slow
def test_every_charge_is_made_once_whoever_dies(lives):
    state, reached = lives.undisturbed["state"], lives.undisturbed["reached"]
    assert set(reached) == marked("pipeline/billing/balances/scheduled_transactions.py")
    assert (state["seen"], state["charges"]) == ([], ALL)
    assert state["charge events"] == ["billing.charge.created"] * len(ALL)

    for end in lives.ends(lives.every_step("charges.")):
        # The charges of a schedule come all at once.
        assert end["seen"] in ([], ALL[:3], ALL[3:], ALL)
        assert {**end, "seen": []} == state
