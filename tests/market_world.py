"""Random worlds of bills that are reported to a marketplace, and an independent count of their cents."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from math import floor
from pathlib import Path

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.values import failpoint
from meterlake.pipeline.integrations.bills_elsewhere import usage_reports
from meterlake.pipeline.integrations.runs import replay_run
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.runs import IntegrationRun
from tests.deliveries import runs_of, tries
from tests.doubles.marketplace import PRODUCT, FakeMarketplace
from tests.homes import Home, configure, new_home, open_home
from tests.sent_bills import account_id, create, integrate, make_runs, put_bill, send_bills

ACCOUNTS = tuple(f"shop{number:02}" for number in range(28))
DIMENSION = "cents"
UNKNOWN = "nobody knows whether the record arrived"
HOUR = timedelta(hours=1)
# What happens to the next call; the last ones end the process before it, or after it.
TROUBLES = ("fault", "throttled", "busy", "left", "lost", "unsubscribed", "planned", "answered")
_WAITING = {RunStatus.WAITING, RunStatus.STARTED, RunStatus.RATE_LIMIT_RETRY}
_LAST = 12


class ProcessEnd(BaseException):
    """The process ends here: nothing that follows is written down."""


@dataclass
class Step:
    """What happens in some hours.

    Attributes:
        totals: What bills come to from now on, in thousandths of a dollar: account, month, total.
        trouble: What happens to the next call.
        hours: How long nothing is sent after it.
    """

    totals: Sequence[tuple[int, int, int]]
    trouble: str | None = None
    hours: int = 1


@dataclass
class MarketWorld:
    """A home, a marketplace, and what the bills come to.

    Attributes:
        totals: Of each bill, by account and month, in thousandths.
        peaks: The most cents that an account has owed.
        unheard: Records that arrived, and of which nobody heard that in time.
    """

    home: Home
    market: FakeMarketplace
    ids: dict[str, str]
    totals: dict[tuple[str, int], int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    unheard: set[tuple[str, str, float]] = field(default_factory=set)

    def take(self, step: Step) -> None:
        """Live through a step."""
        for number, month, total in step.totals:
            self.change(ACCOUNTS[number], month, total)
        make_runs(self.home)
        with self._in_trouble(step.trouble):
            self.send()
        self.home.clock.time += step.hours * HOUR + timedelta(minutes=7)

    def change(self, account: str, month: int, total: int) -> None:
        """Have a bill come to a total."""
        put_bill(self.home, self.ids[account], month, Decimal(total) / 1000)
        self.totals[account, month] = total
        self.peaks[account] = max(self.peaks.get(account, 0), self.cents(account))

    def cents(self, account: str) -> int:
        """The whole cents of all bills of an account."""
        return floor(sum(each for (name, _), each in self.totals.items() if name == account) / 10)

    def send(self) -> None:
        """Send what is due; a person then looks after records of which nobody knows."""
        before = {each.id for each in _doubtful(self._runs())}
        for run in _doubtful(send_bills(self.home)):
            if run.id not in before:
                self._look_up(run)

    def settle(self) -> None:
        """Send without trouble until no run waits."""
        for _ in range(20):
            self.send()
            runs = self._runs()
            if not {each.status for each in runs} & {*_WAITING, RunStatus.AWAITING_RETRY}:
                return
            self.home.clock.time += HOUR
        raise AssertionError([each.status for each in runs])

    def reported(self) -> dict[str, int]:
        """The cents that the marketplace counts, by account."""
        return self.market.totals(DIMENSION)

    def exceed(self) -> None:
        """Have the next bill of each account be more than what was reported too much."""
        for account, cents in self.reported().items():
            excess = cents - self.cents(account)
            self.change(account, _LAST, max(excess, 0) * 10 + 35)
        make_runs(self.home)

    def usage_report(self) -> dict[tuple[str, str, float], int]:
        """What the API says that the marketplace took, as the marketplace itself has it."""
        codes = {id_: code for code, id_ in self.ids.items()}
        page, found = usage_reports(self.home.organization, {}, None, Page(500)), {}
        assert "nextToken" not in page
        for report in page["data"]:
            [(name, hours)] = report["reportedUsage"].items()
            assert name == f"{PRODUCT}-{DIMENSION}"
            for hour, quantity in hours.items():
                moment = datetime.fromisoformat(hour).timestamp()
                found[codes[report["accountId"]], DIMENSION, moment] = quantity
        return found

    def _runs(self) -> list[IntegrationRun]:
        return runs_of(self.home.organization, entity_type="Bill")

    def _look_up(self, run: IntegrationRun) -> None:
        """Replay a run whose record the marketplace does not have."""
        request = tries(self.home.organization, run.id)[-1].request
        _, _, hour, customer = request.partition(":  ")[0].split()[:4]
        key = (customer.rstrip(":"), DIMENSION, datetime.fromisoformat(hour).timestamp())
        if key in self.market.taken:
            self.unheard.add(key)
        else:
            replay_run(self.home.organization, "someone", run.id)

    @contextmanager
    def _in_trouble(self, trouble: str | None) -> Iterator[None]:
        market = self.market
        match trouble:
            case "fault":
                market.faults.append(("InternalServiceErrorException", 500))
            case "throttled":
                market.faults.append(("ThrottlingException", 400))
            case "busy":
                market.busy = 1
            case "left":
                market.left = [1]
            case "lost":
                market.lost = 1
            case "unsubscribed":
                market.customers.discard(ACCOUNTS[0])
            case "planned" | "answered":
                failpoint.hook = _end_at(f"marketplace.{trouble}")
        try:
            yield
        finally:
            failpoint.hook = None
            market.faults, market.left, market.busy, market.lost = [], [], 0, 0
            market.customers.add(ACCOUNTS[0])


def _doubtful(runs: list[IntegrationRun]) -> list[IntegrationRun]:
    return [each for each in runs if UNKNOWN in (each.job.error or "")]


def _end_at(step: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == step:
            raise ProcessEnd

    return hook


def make_market_home(path: Path) -> str:
    """A home with accounts whose bills are reported; the organization."""
    org_id = new_home(path)
    accounts = [{"code": each, "name": each, "emailAddress": "a@b.test"} for each in ACCOUNTS]
    with open_home(path, org_id) as home:
        configure(home.stores.organization(org_id), accounts=accounts)
        names = {"externalSystem": "AWS", "externalTable": "Customer", "m3terEntity": "Account"}
        for code in ACCOUNTS:
            id_ = account_id(home, code)
            create(home, "externalMappings", **names, m3terId=id_, externalId=code)
        integrate(home, "AWS", productCode=PRODUCT, dimension=DIMENSION)
    return org_id


@contextmanager
def open_market(path: Path, org_id: str, market: FakeMarketplace) -> Iterator[MarketWorld]:
    """Open such a home before a marketplace with empty books."""
    options = {"marketplace_endpoint": market.url, "export_credentials": "own"}
    market.taken.clear()
    market.customers = set(ACCOUNTS)
    with open_home(path, org_id, **options) as home:
        clock = home.clock
        market.now = lambda: clock.time.timestamp()  # noqa: PLW0108 - the clock's time changes
        ids = {each: account_id(home, each) for each in ACCOUNTS}
        yield MarketWorld(home, market, ids)
