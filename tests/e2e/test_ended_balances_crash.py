"""kill -9 while what is left of balances is posted: whoever goes on posts it once."""

import pytest

from tests.e2e.billing import fill_balances
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.homes import ACCOUNTS, configure, new_home, open_home

AT_THE_END = [["rollover", "60"], ["expiry", "40"]]
AFTER_A_LATE_BILL = [*AT_THE_END, ["reversal", "40"], ["expiry", "10"]]


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended")
    org_id = new_home(folder / "template")
    with open_home(folder / "template", org_id) as opened:
        configure(opened.stores.organization(org_id), accounts=ACCOUNTS)
        fill_balances(opened)
    with zygote() as processes:
        yield Lives(processes, folder / "template", org_id, "tests.e2e.billing:left_over")


@pytest.mark.slow
def test_what_is_left_is_posted_once_whoever_dies(lives):
    state, reached = lives.undisturbed["state"], lives.undisturbed["reached"]
    assert set(reached) == marked("pipeline/billing/balances/ended_balances.py")
    assert (state["seen"], state["differences"]) == ([], [])
    assert of(state["expired"], "first") == AFTER_A_LATE_BILL
    assert of(state["expired"], "second") == AT_THE_END

    for end in lives.ends(lives.every_step("leftovers.")):
        # All that goes at an end is posted together. Whoever goes on undoes the late bill first.
        assert all(of(end["seen"], code)[:2] in ([], AT_THE_END) for code in ("first", "second"))
        assert {code: expired(end, code) for code in ("first", "second")} == {
            "first": 10,
            "second": 40,
        }
        assert end["differences"] == []


def of(rows, code):
    return [rest for each, *rest in rows if each == code]


def expired(state, code):
    signs = {"expiry": 1, "reversal": -1, "rollover": 0}
    return sum(signs[kind] * int(amount) for kind, amount in of(state["expired"], code))
