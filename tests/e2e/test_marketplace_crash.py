"""kill -9 while bills are reported to a marketplace: each record counts once."""

import shutil

import pytest

from meterlake.model.configuration.integrations import RunStatus
from tests.deliveries import runs_of
from tests.doubles.marketplace import running_marketplace
from tests.e2e.crashing import zygote
from tests.e2e.lives import marked
from tests.homes import new_home, open_home
from tests.organizations import Clock
from tests.sent_bills import account_id, create, integrate, make_runs, put_bill

OWN = {"export_credentials": "own"}
SEND, LATER = "tests.e2e.senders:send", "tests.e2e.senders:send_later"
CENTS = {"acme": 1000, "bolt": 2000}


@pytest.fixture(scope="module")
def processes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        with zygote() as parent:
            yield parent


def home_with_reports(path):
    """A home with bills of two accounts that wait to be reported."""
    org_id = new_home(path)
    with open_home(path, org_id, **OWN) as home:
        names = {"externalSystem": "AWS", "externalTable": "Customer", "m3terEntity": "Account"}
        for code, cents in CENTS.items():
            id_ = account_id(home, code)
            create(home, "externalMappings", **names, m3terId=id_, externalId=code)
            put_bill(home, id_, 1, cents // 100)
        integrate(home, "AWS", productCode="prod", dimension="cents")
        make_runs(home)
    return org_id


def report(processes, home, copy, org_id, *lives):
    """Report the bills of a copy of the home, dying at some steps; what the last life reached."""
    shutil.copytree(home, copy)
    with running_marketplace() as market:
        market.now = lambda: Clock().time.timestamp() + 120
        market.customers.update(CENTS)
        settings = {**OWN, "marketplace_endpoint": market.url}
        for work, crash_at in lives:
            done = processes.run([copy], org_id, crash_at, work, **settings)
            assert done["died"] == (crash_at is not None)
        assert market.totals("cents") == CENTS
        assert len(market.taken) == len(CENTS)
    with open_home(copy, org_id) as opened:
        assert {each.status for each in runs_of(opened.stores.organization(org_id))} == {
            RunStatus.COMPLETE
        }
    return done["reached"]


@pytest.mark.slow
def test_whoever_dies_before_or_after_the_call_each_record_counts_once(processes, tmp_path):
    home, own = tmp_path / "home", marked("pipeline/integrations/connectors/marketplace.py")
    org_id = home_with_reports(home)
    reached = report(processes, home, tmp_path / "whole", org_id, (SEND, None))
    assert own <= set(reached)

    for step in own:
        lives = ((SEND, reached.index(step)), (LATER, None))
        report(processes, home, tmp_path / step, org_id, *lives)
