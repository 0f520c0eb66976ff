"""What a process does that aggregates and bills, and what must be the same afterwards."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from meterlake.model.bills.jobs import KIND
from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceChargeSchedule
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment
from meterlake.model.measurements.measurement import LAKE_TABLES
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month
from meterlake.pipeline.billing import run as billing
from meterlake.pipeline.billing.balances.balances import create_transaction
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.balances.scheduled_transactions import make_due_charges
from meterlake.pipeline.billing.jobs import bucket_tasks
from meterlake.pipeline.billing.jobs.jobs import bill, create, run_bill_job
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.maintenance.maintain import remove_stale
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.lake import quantities
from meterlake.stores.state import Job
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.credits import ledger
from meterlake.stores.state.billing.credits.ledger import Consumption
from tests.bills import price_egress, subscribe, use
from tests.homes import HEADER, Home, configure, csv_row

AUGUST, SEPTEMBER = Month(2026, 8), Month(2026, 9)
# What differs from run to run, whoever dies or not.
_OF_THE_RUN = {"run_id", "snapshot", "computed_at", "account_id", "statement_id"}


def prepared(home: Home) -> None:
    """Quantities and bills of two months, and measurements that came after them."""
    price_egress(home)
    subscribe(home, "acme", "bolt")
    use(home, ("1", "acme", 40), ("2", "bolt", "2.5"))
    home.ingest("august.csv", _august("old", 7))
    for month in (AUGUST, SEPTEMBER):
        aggregate(home.organization, month)
        bill(home.organization, month)
    use(home, ("3", "acme", 60), ("4", "newcomer", 1))
    home.ingest("late.csv", _august("late", 5))
    subscribe(home, "newcomer")


def _august(uid: str, gb: int) -> str:
    return HEADER + csv_row(uid, gb, ts="2026-08-03T10:00:00Z")


def aggregated(home: Home) -> dict[str, Any]:
    """Aggregate both months: the rows of one become a file, those of the other do not.

    What is there before is `seen`, as whoever died left it.
    """
    seen = runs(home)
    for month, inlined in ((AUGUST, 0), (SEPTEMBER, 1000)):
        quantities.INLINED_ROWS_MAX = inlined  # type: ignore[misc]
        aggregate(home.organization, month)
    # Upkeep removes after some days what the dead left there.
    remove_stale(home.organization.lake.staging, timedelta(0))
    return {"seen": seen, "runs": runs(home)}


def runs(home: Home) -> list[Any]:
    """Every run of aggregation in the order in which they were made: its period and its rows."""
    codes = home.account_codes()
    names = [name for name in LAKE_TABLES[quantities.TABLE] if name not in _OF_THE_RUN]
    columns = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
    rows = home.query(
        f"SELECT run_id, period, account_id, {columns} FROM lake.quantity"
        " ORDER BY period, computed_at, run_id, account_id, aggregation_id, segment"
    )
    found: dict[str, list[Any]] = {}
    for run_id, _, account_id, *values in rows:
        found.setdefault(run_id, []).append([codes[account_id], *values])
    return [sorted(each, key=repr) for each in found.values()]


def billed(home: Home) -> dict[str, Any]:
    """Bill both months, each bill in a transaction of its own."""
    seen = bills_of(home)
    billing.BATCH = 1  # type: ignore[misc]
    for month in (AUGUST, SEPTEMBER):
        assert bill(home.organization, month).failures == []
    return {"seen": seen, "bills": bills_of(home), "bill events": _events(home, "billing.bill")}


def billed_by_jobs(home: Home) -> dict[str, Any]:
    """Bill both months as the API and a worker do: by jobs, each bill in a transaction of its own."""
    organization, seen = home.organization, bills_of(home)
    billing.BATCH = 1  # type: ignore[misc]
    known = organization.state.jobs.recent(organization.id, KIND)
    # Later than whoever died over a job: its lease has ended.
    home.clock.advance(days=30 + sum(job.attempt for job in known))
    for bill_date in ("2026-09-01", "2026-10-01"):
        if bill_date not in {job.parameters.get("request", {}).get("billDate") for job in known}:
            create(organization, "ann", {"billDate": bill_date})
    for job in organization.state.jobs.waiting(organization.id, KIND):
        run_bill_job(organization.stores, job.id)
    asked = [
        job for job in organization.state.jobs.recent(organization.id, KIND) if job.author == "ann"
    ]
    return {
        "seen": seen,
        "bills": bills_of(home),
        "bill events": _events(home, "billing.bill"),
        "job events": _events(home, "billing.billjob"),
        "jobs": [[job.status.value, job.progress["pending"]] for job in asked],
        "made": [sorted(job.result["billIds"]) == sorted(_ids(home, job)) for job in asked],
    }


def billed_by_tasks(home: Home) -> dict[str, Any]:
    """Bill as a worker whose buckets of accounts are tasks; each bucket is an account."""
    bucket_tasks.BUCKET = 1  # type: ignore[misc]
    bucket_tasks._LEAST = 1  # type: ignore[misc]
    return billed_by_jobs(home)


def charged_by_schedules(home: Home) -> dict[str, Any]:
    """Make the charges of two schedules that were due for months."""
    seen = _charges(home)
    make_due_charges(home.organization)
    return {
        "seen": seen,
        "charges": _charges(home),
        "charge events": _events(home, "billing.charge"),
    }


def prepared_to_pay(home: Home) -> None:
    """Bills of two months that commitments and balances pay for, and usage that came late.

    The first month draws more of them then, and the second one less.
    """
    ref = ResourceRef(BY_ENTITY[Balance], {})
    for code in ("acme", "bolt"):
        with home.organization.reading() as reader:
            account = reader.find(Account, code)
        assert account is not None
        year = {"accountId": account.id, "currency": "USD"}
        agreed = {**year, "amount": 20, "amountPrePaid": 20}
        days = {"startDate": "2026-01-01", "endDate": "2027-01-01"}
        commitments = ResourceRef(BY_ENTITY[Commitment], {})
        entities.create(home.organization, "ann", commitments, {**agreed, **days})
        # It ends with the first month.
        times = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-09-01T00:00:00Z"}
        times |= {"rolloverEndDate": "2026-12-01T00:00:00Z"}
        prepaid = {**year, **times, "code": f"prepaid-{code}", "name": "Prepaid"}
        made = entities.create(home.organization, "ann", ref, prepaid)
        money = {"amount": 60, "appliedDate": "2026-01-01T00:00:00Z"}
        principal = Principal(PrincipalType.USER, "ann", home.org_id, "session")
        create_transaction(home.organization, principal.author, made["id"], money)
    prepared(home)
    settle_ended_balances(home.organization)


def paid_for(home: Home) -> dict[str, Any]:
    """Bill the first month again, each account in a transaction of its own.

    Who goes on bills it once more: what follows from it is made again if it was not.
    """
    seen = bills_of(home)
    billing.BATCH = 1  # type: ignore[misc]
    assert bill(home.organization, AUGUST).failures == []
    settle_ended_balances(home.organization)
    assert check_ledger(home.organization).differences == ()
    return {
        "seen": seen,
        "bills": bills_of(home),
        "bill events": _events(home, "billing.bill"),
        "amount events": _events(home, "billing.balanceamount"),
        "spent events": _events(home, "configuration.commitment"),
        "ledger of money": _postings(home),
    }


def _postings(home: Home) -> list[Any]:
    """Every posting in the order of its source, without ids."""
    with home.organization.reading() as reader:
        codes = {each.id: each.entity.code for each in reader.all(Balance)}
        keys = {each.id: each.content.period for each in bills.of_period(reader)}
        found = list(ledger.all_postings(reader))
    return sorted(
        [
            *(codes.get(each.source_id, "commitment"), each.kind.value, str(each.amount)),
            *(each.from_account.type.value, each.to_account.type.value),
            *(keys.get(each.bill_id or ""), each.bill_version, str(each.applied)),
        ]
        for each in found
    )


def _charges(home: Home) -> list[str]:
    with home.organization.reading() as reader:
        return sorted(each.entity.code for each in reader.all(Charge))


def left_over(home: Home) -> dict[str, Any]:
    """Settle two balances that ended, one of which a bill draws from only then."""
    home.clock.time = datetime(2026, 11, 1, tzinfo=UTC)
    seen = _expired(home)
    with home.organization.reading() as reader:
        first = reader.find(Balance, "first")
    assert first is not None
    for drawn in (0, 30):
        account = LedgerAccount(LedgerAccountType.BALANCE, first.id)
        draws = [Consumption(account, Decimal(drawn), "USD")] if drawn else []
        with home.organization.transaction("bills") as transaction:
            ledger.repost(transaction, derived_id("bill", "late"), 1, draws)
        settle_ended_balances(home.organization)
    found = check_ledger(home.organization).differences
    return {
        "seen": seen,
        "expired": _expired(home),
        # The bill that draws has no lines here.
        "differences": [each.what for each in found if not each.what.startswith("lines of")],
    }


def _expired(home: Home) -> list[list[str]]:
    """What went from balances at their ends and was taken back, by their codes, in its order."""
    with home.organization.reading() as reader:
        codes = {each.id: each.entity.code for each in reader.all(Balance)}
        found = [each for each in ledger.all_postings(reader) if each.bill_id is None]
    return [
        [codes[each.source_id], each.kind.value, str(each.amount)]
        for each in sorted(found, key=lambda each: (codes[each.source_id], each.sequence))
        if each.kind.value != "credit"
    ]


def fill_balances(home: Home) -> None:
    """Two balances of 100 that end in October, 60 of which are carried over to November."""
    shared = {
        "accountId": "acme",
        "currency": "USD",
        "startDate": "2026-09-01T00:00:00Z",
        "endDate": "2026-10-15T00:00:00Z",
        "rolloverEndDate": "2026-11-15T00:00:00Z",
        "rolloverAmount": 60,
    }
    rows = [{"code": code, "name": code, **shared} for code in ("first", "second")]
    configure(home.organization, balances=rows)
    with home.organization.reading() as reader:
        found = reader.all(Balance)
    principal = Principal(PrincipalType.SERVICEUSER, "7", home.org_id, "key")
    for each in found:
        create_transaction(home.organization, principal.author, each.id, {"amount": 100})


def plan_charges(home: Home) -> None:
    """Two schedules of a balance, each with three charges that are due."""
    year = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    balance = {"code": "prepaid", "name": "Prepaid", "accountId": "acme", "currency": "USD", **year}
    configure(home.organization, balances=[balance])
    with home.organization.reading() as reader:
        found = reader.find(Balance, "prepaid")
    assert found is not None
    for code in ("fee", "rent"):
        document = {
            "name": code,
            "code": code,
            "currency": "USD",
            "servicePeriodStartDate": "2026-04-01T00:00:00Z",
            "servicePeriodEndDate": "2026-07-01T00:00:00Z",
            "billFrequency": "MONTHLY",
            "billFrequencyInterval": 1,
            "billInAdvance": False,
            "chargeDescription": "Fee",
            "amount": 10,
        }
        ref = ResourceRef(BY_ENTITY[BalanceChargeSchedule], {"balanceId": found.id})
        entities.create(home.organization, "ann", ref, document)


def _ids(home: Home, job: Job) -> list[str]:
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    bill_date = job.parameters["request"]["billDate"]
    return [each.id for each in found if str(each.content.key.bill_date) == bill_date]


def bills_of(home: Home) -> list[Any]:
    """Every bill with its lines; there is one for an account and a period, and its lines add up."""
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    codes = home.account_codes()
    keys = [(codes[each.content.key.account_id], each.content.period) for each in found]
    assert len(set(keys)) == len(keys)
    for each in found:
        lines = [Decimal(str(line.body["subtotal"])) for line in each.content.lines]
        assert sum(lines, Decimal(0)) == each.content.total
    return sorted(
        [
            *key,
            each.version,
            each.status.value,
            str(each.content.total),
            [[line.key, str(line.body["subtotal"])] for line in each.content.lines],
        ]
        for key, each in zip(keys, found, strict=True)
    )


def _events(home: Home, beginning: str) -> list[Any]:
    from meterlake.pipeline.events.events import EventFilters, list_events
    from meterlake.stores.state.core.pages import Page

    found = list_events(home.organization, EventFilters(), Page(100, None))["data"]
    return sorted(
        each["eventName"] for each in found if each["eventName"].startswith(f"{beginning}.")
    )
