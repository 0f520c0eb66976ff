"""The law of invoices: what is open at Stripe is what the bills come to, whatever became of them.

Bills are made, changed, approved, locked, deleted and made again; they are sent at once, late, or while
Stripe or the process fails; runs are replayed.
"""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from meterlake.model.configuration.integrations import RunStatus
from tests.databases import copy_home
from tests.doubles.stripe import running_stripe
from tests.invoice_world import ACTIONS, MONTHS, TROUBLES, Step, make_invoice_home, open_invoices
from tests.laws import examples

STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(ACTIONS),
        st.sampled_from(MONTHS),
        st.sampled_from([0, 700, 700, 1300]),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([None, "fault", *TROUBLES]),
        st.sampled_from([0, 0, 1, 30]),
    ),
    min_size=2,
    max_size=14,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("invoices") / "home"
    return path, make_invoice_home(path)


@pytest.fixture(scope="module")
def stripe():
    with running_stripe() as found:
        yield found


def check_law(template, stripe, steps, *, on_approval):
    path, org_id = template
    options = {"sendBillsOnApproval": on_approval}
    with tempfile.TemporaryDirectory() as folder:
        copy_home(path, Path(folder) / "home")
        with open_invoices(Path(folder) / "home", org_id, stripe, **options) as world:
            for step in steps:
                world.take(step)
                issued = Counter(month for month, _ in world.invoiced())
                assert max(issued.values(), default=1) == 1
            world.settle()
            if on_approval:
                unseen = [
                    each for each in world.invoiced() if each[1] not in world.approved[each[0]]
                ]
                assert unseen == []
                world.approve_all()
                world.settle()

            assert world.invoiced() == sorted(world.owed().items())
            assert world.statuses() <= {RunStatus.COMPLETE}
            drafts = [each for each in stripe.live() if each["status"] == "draft"]
            assert drafts == []


@settings(max_examples=examples(3), phases=(Phase.reuse, Phase.generate))
@given(steps=STEPS, on_approval=st.booleans())
def test_open_invoices_are_the_bills(template, stripe, steps, on_approval):
    check_law(template, stripe, steps, on_approval=on_approval)


@pytest.mark.slow
@settings(max_examples=100, phases=(Phase.reuse, Phase.generate))
@given(steps=STEPS, on_approval=st.booleans())
def test_open_invoices_are_the_bills_in_many_worlds(template, stripe, steps, on_approval):
    check_law(template, stripe, steps, on_approval=on_approval)
