"""Published usage is usage on bills and usage on no bill, in whichever order accounts are billed.

Deleted bills are made again by whoever bills their accounts, and by nobody else.
"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.errors import NotFound
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.billing.jobs.jobs import bill, bill_order
from meterlake.pipeline.billing.named_bills import find_bills
from meterlake.pipeline.publish.query import query
from meterlake.stores.state.core import account_names
from tests.bills import a_home_to_bill
from tests.homes import HEADER, Home, configure, csv_row

pytestmark = pytest.mark.long

MONTHS = (Month(2026, 8), Month(2026, 9))
ACCOUNTS = ("acme", "bolt", "child")
# What is used, what bills charge for it, what they do not: nothing is left over.
LEFT_OVER = """
    SELECT account, month, sum(quantity) AS left_over FROM (
        SELECT account, strftime(ts, '%Y-%m') AS month, sum(gb) AS quantity FROM egress GROUP BY ALL
        UNION ALL
        SELECT coalesce(child.code, l.account), month, -quantity
        FROM bill_line l LEFT JOIN account child ON child.id = l.child_account_id
        WHERE type = 'USAGE'
        UNION ALL SELECT account, month, -quantity FROM unbilled_usage
    ) GROUP BY ALL HAVING sum(quantity) <> 0"""
MONTH = st.sampled_from(MONTHS)
ACCOUNT = st.sampled_from(ACCOUNTS)
CHANGES = st.one_of(
    st.tuples(st.just("use"), ACCOUNT, MONTH),
    st.tuples(
        st.just("plan"), ACCOUNT, st.sampled_from(["2026-08-01", "2026-09-01", "2027-01-01"])
    ),
)
RUNS = st.one_of(
    st.tuples(st.just("whole"), st.none(), MONTH),
    st.tuples(st.sampled_from(["alone", "again", "job", "delete"]), ACCOUNT, MONTH),
)


class World:
    """Two accounts and a child of one of them, of which people bill whom they like."""

    def __init__(self, home: Home) -> None:
        self.home = home
        child = {"code": "child", "name": "Child", "emailAddress": "child@example.com"}
        configure(home.organization, accounts=[{**child, "parentAccountId": "acme"}])
        self.uids = 0

    def use(self, account: str, month: Month) -> None:
        self.uids += 1
        row = csv_row(f"u{self.uids}", self.uids, account, ts=f"{month}-05T10:00:00Z")
        self.home.ingest(f"u{self.uids}.csv", HEADER + row)

    def plan(self, account: str, end: str) -> None:
        """The account's plan ends on a day."""
        plan = {"code": f"{account}-basic", "accountId": account, "planId": "basic"}
        times = {"startDate": "2026-01-01T00:00:00Z", "endDate": f"{end}T00:00:00Z"}
        configure(self.home.organization, accountPlans=[{**plan, **times}])

    def whole(self, _account: None, month: Month) -> None:
        bill(self.home.organization, month)

    def alone(self, account: str, month: Month) -> None:
        bill(self.home.organization, month, accounts=[account])

    def job(self, account: str, month: Month) -> None:
        """As over the API: by the bill date."""
        request = BillJobRequest(bill_date=month.after, account_ids=(self._ids()[account],))
        bill_order(self.home.organization, BillOrder(request=request))

    def again(self, account: str, month: Month) -> None:
        """The account's bill of the month is calculated again; made if there is none."""
        organization = self.home.organization
        try:
            [id_] = find_bills(organization, [account, str(month)])
        except NotFound:
            self.alone(account, month)
        else:
            bill_order(organization, BillOrder(bill_ids=(id_,)))

    def delete(self, account: str, month: Month) -> None:
        """The account's bill of the month is deleted, if there is one."""
        with suppress(NotFound):
            [id_] = find_bills(self.home.organization, [account, str(month)])
            delete_bill(self.home.organization, "finance", id_)

    def _ids(self) -> dict[str, str]:
        with self.home.organization.reading() as reader:
            ids = account_names.ids_of(reader, ACCOUNTS)
        return dict(zip(ACCOUNTS, ids, strict=True))

    def left_over(self) -> list[Any]:
        with query(self.home.organization, LEFT_OVER) as answer:
            return list(answer.rows)


def check(folder, steps, last, deleted=()):
    """Nothing is left over once every account was billed somehow after what was changed last.

    Nor is anything after bills were deleted then.
    """
    with a_home_to_bill(folder) as home:
        world = World(home)
        for step, *of in steps:
            getattr(world, step)(*of)
        for account, run in last.items():
            for month in MONTHS:
                getattr(world, run)(account, month)
        assert world.left_over() == []
        for account, month in deleted:
            world.delete(account, month)
        assert not deleted or world.left_over() == []


# The usage of a child comes off the bill of its parent, and onto it.
PLAN_ENDS = [
    ("use", "child", MONTHS[1]),
    ("whole", None, MONTHS[1]),
    ("plan", "acme", "2026-09-01"),
    ("use", "bolt", MONTHS[0]),
]
PLAN_GOES_ON = [
    ("plan", "acme", "2026-09-01"),
    ("use", "child", MONTHS[1]),
    ("whole", None, MONTHS[1]),
    ("plan", "acme", "2027-01-01"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "run"),
    [(PLAN_ENDS, "again"), (PLAN_ENDS, "job"), (PLAN_GOES_ON, "again"), (PLAN_GOES_ON, "alone")],
)
def test_usage_is_on_a_bill_or_on_none(tmp_path, steps, run):
    check(tmp_path, steps, {"acme": run, "bolt": "alone"})


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "deleted"),
    [
        (PLAN_ENDS, ["acme"]),
        (PLAN_GOES_ON, ["acme", "bolt"]),
        pytest.param(PLAN_ENDS, ["bolt"], marks=pytest.mark.slow),
        pytest.param(PLAN_ENDS, ["acme", "bolt"], marks=pytest.mark.slow),
        pytest.param(PLAN_GOES_ON, ["acme"], marks=pytest.mark.slow),
        pytest.param(PLAN_GOES_ON, ["bolt"], marks=pytest.mark.slow),
    ],
)
def test_usage_of_deleted_bills_is_on_none(tmp_path, steps, deleted):
    places = [(account, month) for account in deleted for month in MONTHS]
    check(tmp_path, steps, {"acme": "alone", "bolt": "alone"}, places)


def test_a_child_that_is_billed_alone_leaves_the_deleted_bill_of_its_parent_missing(tmp_path):
    steps = [("use", "child", MONTHS[1]), ("whole", None, MONTHS[1]), ("delete", "acme", MONTHS[1])]
    check(tmp_path, [*steps, ("job", "child", MONTHS[1])], {})


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(st.one_of(CHANGES, RUNS), max_size=8),
    last=st.fixed_dictionaries(
        dict.fromkeys(ACCOUNTS, st.sampled_from(["whole", "alone", "again", "job"]))
    ),
    deleted=st.lists(st.tuples(ACCOUNT, MONTH), max_size=3),
)
def test_usage_is_on_a_bill_or_on_none_whatever_the_order(tmp_path_factory, steps, last, deleted):
    check(tmp_path_factory.mktemp("unbilled"), steps, last, deleted)
