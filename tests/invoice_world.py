"""Random lives of bills that become invoices, and an independent account of what is to be owed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.errors import Conflict, Locked
from meterlake.model.values import failpoint
from meterlake.pipeline.billing.bills import delete_bill, lock_bill, set_status
from meterlake.pipeline.integrations.runs import replay_run
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill
from tests.deliveries import runs_of
from tests.doubles.stripe import KEY, FakeStripe
from tests.homes import Home, new_home, open_home
from tests.sent_bills import account_id, create, integrate, make_runs, put_bill, send_bills

MONTHS = (1, 1, 2)
CREDENTIALS = {"type": "STRIPE_SIGNED_REQUEST", "apiKey": KEY}
# A bill is made again in the same moment in which it is deleted, or changed right after its approval.
ACTIONS = (
    *("put", "put", "delete", "remake", "remake", "approve", "revise", "revise"),
    *("unapprove", "lock", "replay"),
)
# What happens to the next writes; the last ones end the process after so many of them.
TROUBLES = ("fault", "broken", "lost", "ends 1", "ends 2", "ends 3", "ends 4", "ends 5")
_WAITING = {RunStatus.WAITING, RunStatus.STARTED, RunStatus.AWAITING_RETRY}
_WAITING |= {RunStatus.RATE_LIMIT_RETRY}
_ENDS = "stripe.written"


class ProcessEnd(BaseException):
    """The process ends here: nothing that follows is written down."""


@dataclass
class Step:
    """What is done with the bill of a month, and what happens then.

    Attributes:
        cents: What it comes to, if it is put.
        is_read: Whether runs are made of it at once.
        is_sent: Whether they are sent at once.
        trouble: What happens while they are.
        hours: How long nothing happens then.
    """

    action: str
    month: int
    cents: int = 0
    is_read: bool = True
    is_sent: bool = True
    trouble: str | None = None
    hours: int = 1


@dataclass
class InvoiceWorld:
    """A home, a Stripe, and what became of the bills.

    Attributes:
        months: Of bills by their ids, also of deleted ones.
        approved: What the bill of a month came to whenever it was approved.
    """

    home: Home
    stripe: FakeStripe
    account: str
    months: dict[str, int] = field(default_factory=dict)
    approved: dict[int, set[int]] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Live through a step."""
        self._act(step)
        if step.is_read:
            make_runs(self.home)
        if step.is_sent:
            with self._in_trouble(step.trouble):
                send_bills(self.home)
        self.home.clock.time += step.hours * timedelta(hours=1)

    def settle(self) -> None:
        """Send without trouble until no run waits."""
        make_runs(self.home)
        for _ in range(40):
            runs = send_bills(self.home)
            if not {each.status for each in runs} & _WAITING:
                return
            self.home.clock.time += timedelta(hours=30)
        raise AssertionError([each.status for each in runs])

    def approve_all(self) -> None:
        """Approve all bills that there are."""
        for each in self.stored():
            self._approve(each)

    def stored(self) -> list[StoredBill]:
        """The bills that there are."""
        with self.home.organization.reading() as reader:
            return bills.of_period(reader)

    def owed(self) -> dict[int, int]:
        """What the bills that there are come to, in cents, by month; those of nothing are left out."""
        found = {self.months[each.id]: int(each.content.total * 100) for each in self.stored()}
        return {month: cents for month, cents in found.items() if cents}

    def invoiced(self) -> list[tuple[int, int]]:
        """The months and the cents of all invoices that are issued and not taken back."""
        issued = (each for each in self.stripe.live() if each["status"] in {"open", "paid"})
        found = [
            (self.months[each["metadata"]["meterlake_bill"]], each["total"]) for each in issued
        ]
        return sorted((month, cents) for month, cents in found if cents)

    def statuses(self) -> set[RunStatus]:
        """How the runs stand."""
        return {each.status for each in runs_of(self.home.organization)}

    def _act(self, step: Step) -> None:
        known = {self.months[each.id]: each for each in self.stored()}.get(step.month)
        try:
            if step.action == "put":
                self._put(step.month, step.cents)
            elif step.action == "replay":
                self._replay(step.cents)
            elif known is not None:
                self._change(step.action, known)
                if step.action in {"remake", "revise"}:
                    self._put(step.month, step.cents)
        except (Locked, Conflict):
            return  # It is locked, or was never approved.

    def _put(self, month: int, cents: int) -> None:
        amount = Decimal(cents) / 100
        lines = [LineContent("usage", {"convertedSubtotal": amount}, {})] if cents else []
        self.months[put_bill(self.home, self.account, month, amount, lines)] = month

    def _change(self, action: str, bill: StoredBill) -> None:
        organization = self.home.organization
        match action:
            case "delete" | "remake":
                delete_bill(organization, "test", bill.id)
            case "approve" | "revise":
                self._approve(bill)
            case "unapprove":
                set_status(organization, "test", bill.id, BillStatus.PENDING)
            case "lock":
                lock_bill(organization, "test", bill.id)

    def _approve(self, bill: StoredBill) -> None:
        if bill.status is not BillStatus.APPROVED:
            set_status(self.home.organization, "test", bill.id, BillStatus.APPROVED)
        cents = int(bill.content.total * 100)
        self.approved.setdefault(self.months[bill.id], set()).add(cents)

    def _replay(self, number: int) -> None:
        runs = runs_of(self.home.organization, entity_type="Bill")
        ended = [each for each in runs if each.status not in _WAITING]
        if ended:
            id_ = ended[number % len(ended)].id
            replay_run(self.home.organization, "test", id_)

    @contextmanager
    def _in_trouble(self, trouble: str | None) -> Iterator[None]:
        stripe = self.stripe
        match (trouble or "").split():
            case ["fault"]:
                stripe.faults = [500]
            case ["broken"]:
                stripe.broken = 1
            case ["lost"]:
                stripe.lost = 1
            case ["ends", number]:
                failpoint.hook = _end_after(int(number))
        try:
            yield
        finally:
            failpoint.hook = None
            stripe.faults, stripe.broken, stripe.lost = [], 0, 0


def _end_after(count: int) -> Callable[[str], None]:
    left = count

    def hook(name: str) -> None:
        nonlocal left
        left -= name == _ENDS
        if name == _ENDS and not left:
            raise ProcessEnd

    return hook


def make_invoice_home(path: Path) -> str:
    """A home with an account that is a customer of Stripe; the organization."""
    org_id = new_home(path)
    with open_home(path, org_id) as home:
        names = {"externalSystem": "STRIPE_TEST", "externalTable": "Customer"}
        facts = {"m3terEntity": "Account", "m3terId": account_id(home, "acme")}
        create(home, "externalMappings", **names, **facts, externalId="cus_1")
    return org_id


@contextmanager
def open_invoices(
    path: Path, org_id: str, stripe: FakeStripe, **data: object
) -> Iterator[InvoiceWorld]:
    """Open such a home before a Stripe without invoices, with an integration."""
    stripe.invoices.clear()
    stripe.items.clear()
    stripe.answered.clear()
    with open_home(path, org_id, stripe_url=stripe.url) as home:
        integrate(home, "STRIPE_TEST", CREDENTIALS, **data)
        yield InvoiceWorld(home, stripe, account_id(home, "acme"))
