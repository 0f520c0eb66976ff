"""A home with bills, and integrations that send them, as tests need them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from meterlake.model.configuration.integration_systems import systems
from meterlake.model.configuration.integrations import IntegrationConfig, IntegrationCredentials
from meterlake.model.resources import BY_NAME
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.events.reader import read_log
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from meterlake.stores.state.integrations.runs import IntegrationRun
from tests.bills import Prepare, a_home_to_bill
from tests.deliveries import runs_of, send_due, tries
from tests.homes import Home


@contextmanager
def home_with_bills(folder: Path, prepare: Prepare | None = None) -> Iterator[Home]:
    """Acme used 42.5 and bolt 200 in September; receivers may be on this machine."""
    with a_home_to_bill(folder, prepare, webhook_allow=("127.0.0.1",)) as home:
        home.clock.time = datetime.now(UTC)
        yield home


def create(home: Home, name: str, /, **document: Any) -> dict[str, Any]:
    """Create an entity by all rules."""
    ref = ResourceRef(BY_NAME[name], {})
    return entities.create(home.organization, "test", ref, document)


def integrate(home: Home, system: str, credentials: Any = None, **data: Any) -> dict[str, Any]:
    """Configure an integration of bills."""
    document = {"entityType": "Bill", "destination": system, "configData": data}
    if credentials is not None:
        document["credentials"] = credentials
    return create(home, "integrationConfigs", **document)


def change_integration(home: Home, config_id: str, **change: Any) -> None:
    """Change an integration without the checks of whoever saves one."""
    with home.organization.transaction("test") as transaction:
        record = transaction.get(IntegrationConfig, config_id)
        transaction.update(record.id, record.version, record.entity.model_copy(update=change))


def top_up(home: Home, account: str, amount: int = 2) -> None:
    """Have a customer pay ahead for all of 2026: the bills that there are do not have it."""
    times = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    held = create(
        home,
        "balances",
        code=f"ahead-{account}",
        name="Ahead",
        accountId=account_id(home, account),
        currency="USD",
        **times,
    )
    booked = {"amount": Decimal(amount), "appliedDate": times["startDate"]}
    balances.create_transaction(home.organization, "test", held["id"], booked)


def store_key(home: Home, made: Mapping[str, Any], key: str) -> None:
    """Give an integration of Stripe an API key that may be none for it."""
    found = IntegrationCredentials(
        type="STRIPE_SIGNED_REQUEST", api_key=home.stores.secrets.encrypt(key)
    )
    change_integration(home, made["id"], credentials=found)


def make_bills(home: Home, *, with_runs: bool = True) -> None:
    """Make the bills of September, and the runs that follow."""
    bill(home.organization, Month(2026, 9))
    if with_runs:
        make_runs(home)


def put_bill(
    home: Home,
    account: str,
    month: int,
    total: Decimal | int,
    lines: Sequence[LineContent] = (),
    currency: str = "USD",
) -> str:
    """Store a bill of 2026 that comes to a total, or change it; its id."""
    key = BillKey(account, date(2026, month, 28), "MONTHLY", 1)
    content = BillContent(key, f"2026-{month:02}", currency, Decimal(total), {}, {}, lines)
    with home.organization.transaction("test") as transaction:
        stored, _ = bills.put(transaction, content)
    return stored.id


def make_runs(home: Home) -> None:
    """Have runs follow from the events."""
    taken = {name: each.entity_types for name, each in systems().items()}
    read_log(home.organization, systems=taken)


def send_bills(home: Home, known: Any = None) -> list[IntegrationRun]:
    """Send what is due; all runs of bills."""
    send_due(home.stores, known=known)
    return runs_of(home.organization, entity_type="Bill")


def all_tries(home: Home) -> str:
    """All that is written down of all tries."""
    found = runs_of(home.organization)
    return "\n".join(str(each) for run in found for each in tries(home.organization, run.id))


def account_id(home: Home, code: str) -> str:
    """The id of an account."""
    from meterlake.model.customers.accounts import Account

    with home.organization.reading() as reader:
        return reader.find(Account, code).id
