"""Whose periods are whose, and what is pooled when."""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.recurring_period import RECURRING, PeriodSpec
from meterlake.model.values.period import (
    Month,
    Period,
    format_instant,
    parse_instant,
    uncovered_periods,
)
from meterlake.stages.usage.cycles import Cycles
from tests.organizations import DOCUMENTS, Document, after

OCTOBER = PeriodSpec.month(Month(2026, 10))


def world(accounts=(), plans=(), templates=(), **more):
    """Meters of the products `cloud` and `shop`, a global one; accounts on plans."""
    meter = DOCUMENTS["meters"][0]
    compounds = more.pop("compounds", [])
    return after(
        [
            Document(
                "all.yaml",
                {
                    "organizationConfig": {"daysBeforeBillDue": 14, **more},
                    "products": DOCUMENTS["products"],
                    "meters": [
                        meter,
                        meter | {"code": "shop", "productId": "shop"},
                        {name: meter[name] for name in meter if name != "productId"}
                        | {"code": "all"},
                    ],
                    "aggregations": [
                        DOCUMENTS["aggregations"][0] | {"code": code, "meterId": code}
                        for code in ("egress", "shop", "all")
                    ],
                    "compoundAggregations": compounds,
                    "planTemplates": [
                        DOCUMENTS["planTemplates"][0] | {"code": "cloud"},
                        DOCUMENTS["planTemplates"][0] | {"code": "shop", "productId": "shop"},
                        DOCUMENTS["planTemplates"][0]
                        | {"code": "quarterly", "billFrequencyInterval": 3},
                        DOCUMENTS["planTemplates"][0]
                        | {"code": "yearly"}
                        | {"billFrequency": "ANNUALLY"},
                        *templates,
                    ],
                    "plans": [
                        {"code": code, "name": code, "planTemplateId": code}
                        for code in (
                            *("cloud", "shop", "quarterly", "yearly"),
                            *(template["code"] for template in templates),
                        )
                    ],
                    "accounts": [
                        {"code": code, "name": code, "emailAddress": "a@b.example", **fields}
                        for code, fields in accounts
                    ],
                    "accountPlans": [
                        {
                            "code": f"{account}-{plan}-{n}",
                            "accountId": account,
                            "planId": plan,
                            "startDate": "2022-01-01T00:00:00Z",
                            **fields,
                        }
                        for n, (account, plan, fields) in enumerate(plans)
                    ],
                },
            )
        ]
    )


def cycles(configuration, asked=OCTOBER):
    organization = next(
        record.entity
        for kind in configuration.kinds()
        for record in configuration.all(kind)
        if kind.__name__ == "OrganizationConfig"
    )
    return Cycles(configuration, asked.of(organization))


def own(configuration, meter="egress", asked=OCTOBER):
    """The accounts with periods of their own, as days of UTC."""
    found = cycles(configuration, asked).of_meter(configuration.find(Meter, meter)).own
    codes = {record.id: record.entity.code for record in configuration.all(Account)}
    return {codes[account]: [days(each) for each in periods] for account, periods in found.items()}


def days(period):
    return f"{period.start:%m-%d}/{period.end:%m-%d}"


def pools(configuration, meter="egress"):
    found = cycles(configuration).of_meter(configuration.find(Meter, meter)).pools
    codes = {record.id: record.entity.code for record in configuration.all(Account)}
    return [(codes[each.parent_id], codes[each.child_id], each.time) for each in found]


def test_who_has_no_epoch_and_no_interval_has_the_period_of_the_organization():
    assert own(world([("a", {}), ("b", {"billEpoch": "2022-01-01"})], [("a", "cloud", {})])) == {}


def test_an_account_s_epoch_beats_the_organization_s_and_an_account_plan_s_beats_both():
    made = world(
        [
            ("org", {}),
            ("account", {"billEpoch": "2022-01-10"}),
            ("plan", {"billEpoch": "2022-01-10"}),
        ],
        [("plan", "cloud", {"billEpoch": "2022-01-20"})],
        monthEpoch="2022-01-05",
    )

    assert own(made) == {"account": ["10-10/11-10"], "plan": ["10-20/11-20"]}
    # The plan is of another product.
    assert own(made, "shop") == {"account": ["10-10/11-10"], "plan": ["10-10/11-10"]}


@pytest.mark.parametrize(
    ("epoch", "month", "expected"),
    [
        ("2022-01-01", 10, ["10-01/01-01"]),
        ("2022-01-01", 11, []),
        ("2022-02-15", 11, ["11-15/02-15"]),
    ],
)
def test_a_plan_of_several_months_is_in_the_run_of_the_month_in_which_it_begins(
    epoch, month, expected
):
    made = world([("a", {})], [("a", "quarterly", {"billEpoch": epoch})])

    assert own(made, asked=PeriodSpec.month(Month(2026, month))) == {"a": expected}


def test_a_plan_of_another_frequency_gives_no_periods():
    made = world([("a", {})], [("a", "yearly", {"billEpoch": "2022-01-15"})])
    year = PeriodSpec.on(BillingFrequency.ANNUALLY, date(2026, 6, 1))

    assert own(made) == {}
    assert own(made, asked=year) == {"a": ["01-15/01-15"]}


def test_a_plan_counts_where_it_holds_at_some_time_of_its_own_period():
    made = world(
        [("ended", {}), ("later", {}), ("after", {}), ("never", {}), ("last", {})],
        [
            ("ended", "quarterly", {"endDate": "2026-10-01T00:00:00Z"}),
            ("later", "quarterly", {"startDate": "2026-11-01T00:00:00Z"}),
            ("after", "quarterly", {"startDate": "2027-01-01T00:00:00Z"}),
            ("last", "quarterly", {"endDate": "2026-10-01T00:00:01Z"}),
        ],
    )

    assert own(made) == {"last": ["10-01/01-01"], "later": ["10-01/01-01"]}


def runs(configuration, months=(9, 10, 11, 12)):
    """The periods of account `a` in the runs of some months of 2026."""
    return [
        own(configuration, asked=PeriodSpec.month(Month(2026, month))).get("a") for month in months
    ]


def test_a_quarter_in_which_a_plan_begins_is_one_period_from_its_first_month_on():
    made = world([("a", {})], [("a", "quarterly", {"startDate": "2026-11-20T00:00:00Z"})])

    assert runs(made) == [None, ["10-01/01-01"], [], []]


def test_what_lies_before_the_first_period_of_a_plan_is_a_period_of_the_account():
    fields = {"startDate": "2026-11-05T00:00:00Z", "billEpoch": "2022-01-15"}
    made = world([("a", {})], [("a", "cloud", fields)])

    assert runs(made) == [
        None,
        ["10-01/10-15", "10-15/11-15"],
        ["11-15/12-15"],
        ["12-15/01-15"],
    ]


def test_what_lies_behind_the_last_period_of_a_plan_is_a_period_of_the_account():
    quarter = world([("a", {})], [("a", "quarterly", {"endDate": "2026-11-10T00:00:00Z"})])
    fields = {"endDate": "2026-11-10T00:00:00Z", "billEpoch": "2022-01-15"}
    month = world([("a", {})], [("a", "cloud", fields)])

    assert runs(quarter) == [[], ["10-01/01-01"], [], []]
    assert runs(month) == [["09-15/10-15"], ["10-15/11-15"], ["11-15/12-01"], None]


def test_a_plan_that_follows_on_another_one_begins_after_its_last_period():
    made = world(
        [("a", {})],
        [
            ("a", "quarterly", {"endDate": "2026-11-10T00:00:00Z"}),
            ("a", "cloud", {"startDate": "2026-11-10T00:00:00Z", "billEpoch": "2022-01-15"}),
        ],
    )

    assert runs(made, (10, 11, 12)) == [["10-01/01-01"], [], []]
    january = own(made, asked=PeriodSpec.month(Month(2027, 1)))
    assert january == {"a": ["01-01/01-15", "01-15/02-15"]}


def test_who_is_on_a_plan_is_asked_of_the_account_s_own_periods():
    fields = {"startDate": "2026-11-05T00:00:00Z", "billEpoch": "2022-01-15"}
    made = world([("a", {})], [("a", "cloud", fields)])
    october = cycles(made)
    product_id = made.find(Meter, "egress").entity.product_id

    def found(product_id):
        own = october.on_plan(product_id, lambda each: october.periods(each, product_id))
        return [days(period) for _, period in own]

    assert found(product_id) == found(None) == ["10-15/11-15"]


def test_a_plan_that_begins_before_its_first_bill_date_has_one_period_until_then():
    # A plan of the account's own epoch, and one of an account plan's that is on the account.
    times = {"startDate": "2026-10-01T00:00:00Z"}
    plan = world([("a", {})], [("a", "cloud", {**times, "billEpoch": "2026-11-15"})])
    account = world([("a", {"billEpoch": "2026-11-15"})], [("a", "cloud", times)])
    begun = [["10-01/11-15"], ["11-15/12-15"], ["12-15/01-15"]]

    assert runs(plan) == [None, *begun]
    # Before the plan, the account's own periods are counted from its epoch.
    assert runs(account) == [["09-15/10-01"], *begun]
    # Meters of other products are not the plan's.
    assert own(plan, "shop") == {}


def test_a_first_period_begins_with_the_day_on_which_the_plan_does():
    fields = {"startDate": "2026-09-20T17:00:00Z", "billEpoch": "2026-12-01"}
    made = world([("a", {})], [("a", "quarterly", fields)])

    assert runs(made) == [["09-01/09-20", "09-20/12-01"], [], [], ["12-01/03-01"]]
    september = cycles(made, PeriodSpec.month(Month(2026, 9)))
    assert september.reach >= parse_instant("2026-12-01T00:00:00Z")


def test_a_first_period_begins_after_the_last_one_of_the_plan_before():
    made = world(
        [("a", {})],
        [
            ("a", "cloud", {"endDate": "2026-10-10T00:00:00Z"}),
            ("a", "cloud", {"startDate": "2026-10-10T00:00:00Z", "billEpoch": "2026-12-05"}),
        ],
    )

    assert runs(made) == [None, None, ["11-01/12-05"], ["12-05/01-05"]]


def test_the_first_bill_date_is_that_of_the_account_that_is_billed():
    times = {"startDate": "2026-09-10T00:00:00Z"}
    accounts = [("top", {"billEpoch": "2026-11-20"}), ("a", {"parentAccountId": "top"})]
    on_parent = world(accounts, [("a", "cloud", times)])
    by_itself = world(accounts, [("a", "cloud", {**times, "childBillingMode": "CHILD"})])

    assert runs(on_parent, (9, 10)) == [["09-01/09-10", "09-10/11-20"], []]
    assert runs(by_itself, (9, 10)) == [None, None]


@pytest.mark.parametrize(
    ("frequency", "epoch", "expected"),
    [
        ("DAILY", "2026-10-08", {"2026-10-05": ["10-05/10-08"], "2026-10-06": []}),
        ("WEEKLY", "2026-10-28", {"2026-10-05": ["10-05/10-28"], "2026-10-12": []}),
        ("ANNUALLY", "2028-03-01", {"2026-10-05": ["01-01/10-05", "10-05/03-01"]}),
    ],
)
def test_every_frequency_has_a_first_bill_date(frequency, epoch, expected):
    template = DOCUMENTS["planTemplates"][0] | {"code": "often", "billFrequency": frequency}
    fields = {"startDate": "2026-10-05T00:00:00Z", "billEpoch": epoch}
    made = world([("a", {})], [("a", "often", fields)], [template], weekEpoch="2026-10-05")

    for day, periods in expected.items():
        asked = PeriodSpec.on(BillingFrequency(frequency), date.fromisoformat(day))
        assert own(made, asked=asked) == {"a": periods}


DAYS = st.dates(date(2025, 1, 1), date(2026, 12, 31)).map(str)
INTERVALS = (1, 2, 3, 5)
RUNS = 14


@st.composite
def histories(draw):
    """Accounts on plans one after another, now and then, and the frequency of their runs."""
    frequency = draw(st.sampled_from(RECURRING[:3]))
    length = {BillingFrequency.DAILY: 1, BillingFrequency.WEEKLY: 7}.get(frequency, 30)
    # In no zone before the first run: a first period would be of a run that is not looked at.
    hours = st.integers(12, 24 * length * (RUNS + 4))
    bounds = sorted(draw(st.sets(hours, max_size=6)))
    if len(bounds) > 2 and draw(st.booleans()):
        # Plans that follow on each other.
        bounds = [bounds[0], *(each for each in bounds[1:-1] for _ in "12"), bounds[-1]]
    epoch = DAYS.map(lambda day: {"billEpoch": day})
    plans = []
    for n in range(0, len(bounds), 2):
        instants = [
            parse_instant("2026-01-01T00:00:00Z") + timedelta(hours=each) for each in bounds
        ]
        times = {"startDate": format_instant(instants[n])}
        if n + 1 < len(bounds):
            times["endDate"] = format_instant(instants[n + 1])
        code = f"p{draw(st.sampled_from(INTERVALS))}"
        plans.append(("a", code, times | draw(st.just({}) | epoch)))
    templates = [
        DOCUMENTS["planTemplates"][0]
        | {"code": f"p{interval}", "billFrequency": frequency.value}
        | {"billFrequencyInterval": interval}
        for interval in INTERVALS
    ]
    epochs = draw(st.fixed_dictionaries(dict.fromkeys(("weekEpoch", "monthEpoch"), DAYS)))
    timezone = draw(st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe"]))
    account = ("a", draw(st.just({}) | epoch))
    fields = {**epochs, "timezone": timezone, "templates": templates}
    return frequency, account, plans, fields


def in_consecutive_runs(configuration, frequency, meter):
    """The organization's periods, and those of account `a`, each as often as it is in a run."""
    day, whole, found = date(2026, 1, 1), [], []
    for _ in range(RUNS):
        run = cycles(configuration, PeriodSpec.on(frequency, day))
        own = run.of_meter(configuration.find(Meter, meter)).own
        [account] = configuration.all(Account)
        whole.append(run.period)
        found += own.get(account.id, [run.period])
        assert all(each.end <= run.reach for each in found)
        day = run.run.after
    return whole, sorted(found)


@settings(max_examples=50)
@given(histories())
def test_over_consecutive_runs_every_instant_of_an_account_lies_in_exactly_one_period(history):
    frequency, account, plans, fields = history
    whole, found = in_consecutive_runs(world([account], plans, **fields), frequency, "egress")

    assert all(one.end == other.start for one, other in pairwise(found))
    # The first runs may lie within a period that began before them.
    assert whole[0].start <= found[0].start <= whole[2 * max(INTERVALS)].start
    assert found[-1].end >= whole[-1].end


@settings(max_examples=50)
@given(histories(), histories())
def test_of_plans_that_hold_together_every_instant_lies_in_some_period(history, other):
    frequency, account, plans, fields = history
    both = [*plans, *((*each[:1], "shop", each[2]) for each in other[2])]
    whole, found = in_consecutive_runs(world([account], both, **fields), frequency, "all")
    # Until here a period may reach that began before the first of the runs.
    covered = Period(whole[max(INTERVALS) + 1].start, whole[-1].end)

    assert [part for part in uncovered_periods(covered, found) if part.start < part.end] == []
    # No two are the same.
    assert len(set(found)) == len(found)


COMPOUND = {
    "code": "both",
    "name": "Both",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "x",
    "calculation": "aggregation.egress + aggregation.shop",
}


def compound_periods(run, product_id, *meters):
    """The periods of account `a` for a compound aggregation of a product that reads some meters."""
    [account] = run.configuration.all(Account)
    found = [run.of_meter(run.configuration.find(Meter, each)) for each in meters]
    own = run.of_compound(product_id, found, [account.id])
    return sorted(own.get(account.id, [run.period]))


def meter_periods(run, meter):
    [account] = run.configuration.all(Account)
    own = run.of_meter(run.configuration.find(Meter, meter)).own
    return own.get(account.id, [run.period])


@settings(max_examples=15)
@given(histories(), histories(), st.booleans())
def test_a_compound_has_the_periods_that_a_meter_of_its_product_would_have(history, other, alone):
    frequency, account, plans, fields = history
    fields["templates"] += [
        each | {"code": f"s{each['billFrequencyInterval']}", "productId": "shop"}
        for each in fields["templates"]
    ]
    plans = [
        *(() if alone else plans),
        *((who, code.replace("p", "s"), times) for who, code, times in other[2]),
    ]
    without = world([account], plans, **fields)
    compounds = [
        COMPOUND | {"code": "cloud", "productId": "cloud", "calculation": "aggregation.all"},
        COMPOUND,
    ]
    made = world([account], plans, compounds=compounds, **fields)
    cloud = made.find(Meter, "egress").entity.product_id
    day = date(2026, 1, 1)
    for _ in range(6):
        asked = PeriodSpec.on(frequency, day)
        run, simple = cycles(made, asked), cycles(without, asked)

        of_cloud = compound_periods(run, cloud, "all")
        assert of_cloud == meter_periods(simple, "egress")
        assert set(of_cloud) <= set(meter_periods(run, "all"))
        of_all = compound_periods(run, None, "egress", "shop")
        assert of_all == meter_periods(simple, "all")
        for meter in ("egress", "shop"):
            assert set(of_all) <= set(meter_periods(run, meter))
        day = run.run.after


def test_ad_hoc_periods_are_the_same_for_all():
    made = world([("a", {"billEpoch": "2022-01-10"})], [("a", "quarterly", {})])

    assert own(made, asked=PeriodSpec.between(date(2026, 10, 3), date(2026, 10, 5))) == {}


def test_a_meter_of_all_products_is_folded_over_the_periods_of_all_plans():
    made = world(
        [("a", {})],
        [("a", "cloud", {"billEpoch": "2022-01-10"}), ("a", "shop", {})],
    )

    assert own(made) == {"a": ["10-10/11-10"]}
    assert own(made, "shop") == {}
    assert own(made, "all") == {"a": ["10-01/11-01", "10-10/11-10"]}


def test_so_is_a_meter_that_a_global_compound_aggregation_reads():
    made = world(
        [("a", {})],
        [("a", "cloud", {"billEpoch": "2022-01-10"}), ("a", "shop", {})],
        compounds=[COMPOUND],
    )

    assert own(made) == own(made, "shop") == {"a": ["10-01/11-01", "10-10/11-10"]}


def test_a_compound_of_a_product_has_its_periods_whatever_other_plans_the_account_is_on():
    made = world(
        [("a", {})],
        [("a", "quarterly", {})],
        compounds=[COMPOUND | {"productId": "shop", "calculation": "aggregation.all"}],
    )
    shop = made.find(Meter, "shop").entity.product_id

    assert own(made) == {"a": ["10-01/01-01"]}
    assert own(made, "all") == {"a": ["10-01/11-01", "10-01/01-01"]}
    [period] = compound_periods(cycles(made), shop, "all")
    assert days(period) == "10-01/11-01"


def test_a_child_has_the_periods_of_its_own_plan_beside_those_of_its_parent():
    made = world(
        [("p", {}), ("c", {"parentAccountId": "p"})],
        [
            ("p", "cloud", {"billEpoch": "2022-01-10"}),
            ("c", "cloud", {"billEpoch": "2022-01-20", "startDate": "2026-11-01T00:00:00Z"}),
        ],
    )

    assert own(made)["c"] == ["10-10/11-10", "10-20/11-20"]
    september = PeriodSpec.month(Month(2026, 9))
    assert own(made, asked=september)["c"] == ["09-10/10-10"]


def test_children_without_a_plan_are_pooled_over_the_periods_of_their_parent():
    made = world(
        [
            ("p", {}),
            ("free", {"parentAccountId": "p", "billEpoch": "2022-01-07"}),
            ("own", {"parentAccountId": "p"}),
            ("other", {"parentAccountId": "p"}),
        ],
        [
            ("p", "cloud", {"billEpoch": "2022-01-10"}),
            ("own", "cloud", {}),
            ("other", "shop", {}),
        ],
    )
    always = Period(
        parse_instant("2022-01-01T00:00:00Z"), parse_instant("9999-12-31T23:59:59.999999Z")
    )

    assert sorted(pools(made)) == [("p", "free", always), ("p", "other", always)]
    period = ["10-10/11-10"]
    assert own(made) == {"p": period, "free": period, "other": period}
    # No plan of the parent is for the shop.
    assert pools(made, "shop") == []
    # A meter of all products: whoever is on any plan is not pooled.
    assert pools(made, "all") == [("p", "free", always)]


def test_what_is_pooled_is_what_was_used_while_only_the_parent_was_on_a_plan():
    made = world(
        [("p", {}), ("c", {"parentAccountId": "p"})],
        [
            ("p", "cloud", {"startDate": "2026-10-03T00:00:00Z"}),
            (
                "c",
                "cloud",
                {"startDate": "2026-10-10T00:00:00Z", "endDate": "2026-10-20T00:00:00Z"},
            ),
        ],
    )

    assert [days(time) for *_, time in pools(made)] == ["10-03/10-10", "10-20/12-31"]


def test_plans_of_the_parent_that_overlap_pool_once():
    made = world(
        [("p", {}), ("c", {"parentAccountId": "p"})],
        [
            (
                "p",
                "cloud",
                {"startDate": "2026-10-03T00:00:00Z", "endDate": "2026-10-20T00:00:00Z"},
            ),
            ("p", "shop", {"startDate": "2026-10-10T00:00:00Z", "endDate": "2026-10-25T00:00:00Z"}),
        ],
    )

    assert [days(time) for *_, time in pools(made, "all")] == ["10-03/10-20", "10-20/10-25"]
