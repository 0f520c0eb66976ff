"""The connector of the AWS Marketplace: the cents of a bill, as usage of a dimension of one cent each.

What is reported is a difference: what the account owes, less what was reported. Records are written
down before they are sent together, and one whose answer got lost is sent again as it was.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from meterlake.model.configuration.integration_systems import AWS
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import format_instant
from meterlake.pipeline.integrations.connectors.billed import AUTHOR, SentBill, read_bill
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
)
from meterlake.pipeline.integrations.connectors.marketplace_calls import (
    RECORDS_MAX,
    MeteringCall,
    Reply,
)
from meterlake.stores.state.integrations.marketplace import (
    CURRENCY,
    MarketplaceRecord,
    Unsettled,
    accept_record,
    forget_record,
    plan_record,
)

# What one record can hold.
QUANTITY_MAX: Final = 2**31 - 1
_TABLE: Final = "Customer"


class MarketplaceConnector:
    """Reports bills as usage."""

    declaration: Final = AWS
    concurrency: Final = 1
    batch: Final = RECORDS_MAX

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Report what the account of a bill owes beyond what was reported."""
        [outcome] = await self.send_many([outgoing])
        return outcome

    async def take_back(self, outgoing: Outgoing) -> Outcome:
        """Settle what the account owes without a bill that is deleted."""
        return await self.send(outgoing)

    async def send_many(self, outgoings: Sequence[Outgoing]) -> list[Outcome]:
        """The same for several bills, in as few calls as possible."""
        return await asyncio.to_thread(_report, outgoings)


@dataclass(frozen=True, slots=True)
class _Report:
    """A bill, and the record that its run wrote down."""

    outgoing: Outgoing
    bill: SentBill
    record: MarketplaceRecord


# Outcomes by the ids of runs.
_Outcomes = dict[str, Outcome]


def _report(outgoings: Sequence[Outgoing]) -> list[Outcome]:
    """Report bills; what follows for an account waits for what became of its record before."""
    found: _Outcomes = {}
    left = list(outgoings)
    while left:
        firsts = {_account_of(each): each for each in reversed(left)}
        found |= _report_accounts([each for each in left if each is firsts[_account_of(each)]])
        left = [each for each in left if each.run_id not in found]
    return [found[each.run_id] for each in outgoings]


def _account_of(outgoing: Outgoing) -> str:
    return outgoing.content.account_id or outgoing.content.entity_id


def _report_accounts(outgoings: Sequence[Outgoing]) -> _Outcomes:
    """Report one bill of each account, in one call."""
    outcomes, wanted = _read_bills(outgoings)
    reports: list[_Report] = []
    if wanted:
        first = wanted[0].outgoing
        with first.stores.state.transaction(first.org_id, AUTHOR) as transaction:
            for each in wanted:
                is_sent = each.bill.reason_not_to_send is None
                planned = plan_record(transaction, each.record, each.outgoing.time, is_sent=is_sent)
                if isinstance(planned, Unsettled):
                    outcomes[each.outgoing.run_id] = _describe_rest(planned)
                elif planned.accepted:
                    outcomes[each.outgoing.run_id] = _sent(planned)
                else:
                    reports.append(_Report(each.outgoing, each.bill, planned))
        mark_step("marketplace.planned")
    return outcomes | _send(reports) if reports else outcomes


def _read_bills(outgoings: Iterable[Outgoing]) -> tuple[_Outcomes, list[_Report]]:
    """Why some cannot be reported; and the others, with records that have no hour and quantity."""
    outcomes: _Outcomes = {}
    wanted: list[_Report] = []
    for each in outgoings:
        bill = read_bill(each)
        customer = bill if isinstance(bill, Failed) else _check(each, bill)
        if isinstance(bill, Failed) or isinstance(customer, Failed):
            outcomes[each.run_id] = customer  # type: ignore[assignment] # a failure in both cases
        else:
            wanted.append(_Report(each, bill, _wanted_record(each, bill, customer)))
    return outcomes, wanted


def _check(outgoing: Outgoing, bill: SentBill) -> str | Failed:
    """The customer of a bill; or why nothing can be reported."""
    if bill.document["currency"] != CURRENCY:
        error = f"the marketplace takes {CURRENCY}, the bill is in {bill.document['currency']}"
        return Failed(kind=FailureKind.INVALID, error=error)
    role = None if bill.credentials is None else bill.credentials.role_arn
    if role is None and outgoing.stores.settings.export_credentials != "own":
        error = "the integration names no role (credentials.roleArn)"
        return Failed(kind=FailureKind.UNAUTHENTICATED, error=error)
    account_id = bill.stored.content.key.account_id
    customer = bill.mapped("Account", account_id)
    if customer is None:
        error = f"account {bill.account.get('code', account_id)} is mapped to no customer"
        details = {"accountId": account_id, "externalTable": _TABLE}
        return Failed(kind=FailureKind.MAPPING_MISSING, error=error, details=details)
    return customer


def _wanted_record(outgoing: Outgoing, bill: SentBill, customer: str) -> MarketplaceRecord:
    return MarketplaceRecord(
        customer=customer,
        dimension=_dimension_of(bill),
        hour=outgoing.time.astimezone(UTC),
        system=AWS.name,
        account_id=bill.stored.content.key.account_id,
        bill_id=bill.stored.id,
        run_key=outgoing.content.run_key,
        quantity=0,
    )


def _dimension_of(bill: SentBill) -> str:
    return f"{bill.options.product_code}-{bill.options.dimension}"


def _describe_rest(rest: Unsettled) -> Outcome:
    if rest.wait is not None:
        error = f"all hours have a record already; {rest.cents} cents wait for the next one"
        return Failed(kind=FailureKind.TOO_EARLY, error=error, retry_after=rest.wait)
    if rest.is_pending:
        error = "nobody knows yet whether an earlier record of the account arrived"
        return Failed(kind=FailureKind.TOO_EARLY, error=error)
    said = "nothing is to be reported"
    if rest.cents < 0:
        said = f"{-rest.cents} cents were reported too many: later bills are lowered by them"
    return Sent(exchange=Exchange(request=said))


def _send(reports: Sequence[_Report]) -> _Outcomes:
    """Send records that are written down, and write down what became of each."""
    replies = {each.outgoing.run_id: _refuse(each) for each in reports}
    left = [each for each in reports if replies[each.outgoing.run_id] is None]
    if left:
        call = MeteringCall(left[0].outgoing, left[0].bill)
        by_record = call.send([each.record for each in left])
        replies |= {each.outgoing.run_id: by_record[each.record] for each in left}
        mark_step("marketplace.answered")
    return _write_replies(reports, {id_: reply for id_, reply in replies.items() if reply})


def _refuse(report: _Report) -> Reply | None:
    """Why a record is not sent."""
    record = report.record
    is_other = record.dimension != _dimension_of(report.bill)
    if is_other or record.is_too_old(report.outgoing.time):
        why = f"it is of {record.dimension}" if is_other else "it is too old to be sent again"
        error = f"nobody knows whether the record arrived, and {why}; a replay reports it anew"
        return Reply(FailureKind.REJECTED, error, is_known=False)
    if record.quantity > QUANTITY_MAX:
        error = f"{record.quantity} cents do not fit one record: at most {QUANTITY_MAX}"
        return Reply(FailureKind.INVALID, error, is_judged=True)
    return None


def _write_replies(reports: Sequence[_Report], replies: Mapping[str, Reply]) -> _Outcomes:
    """Keep what was taken, and forget what was refused; what nobody knows stays as it is."""
    first = reports[0].outgoing
    with first.stores.state.transaction(first.org_id, AUTHOR) as transaction:
        for each in reports:
            reply = replies[each.outgoing.run_id]
            if reply.kind is None:
                accept_record(transaction, each.record)
            elif reply.is_known and not _may_have_arrived(each.record, reply):
                forget_record(transaction, each.record)
    return {
        each.outgoing.run_id: _outcome(each.record, replies[each.outgoing.run_id])
        for each in reports
    }


def _may_have_arrived(record: MarketplaceRecord, reply: Reply) -> bool:
    """Whether an earlier call may have brought a record there that this one did not."""
    return record.is_doubtful and not reply.is_judged


def _outcome(record: MarketplaceRecord, reply: Reply) -> Outcome:
    if reply.kind is None:
        return _sent(record, reply.id)
    error = reply.error[:1000]
    if reply.is_known and _may_have_arrived(record, reply):
        error += "; nobody knows whether an earlier try of the same record arrived"
    return Failed(kind=reply.kind, error=error, exchange=Exchange(request=_describe(record)))


def _sent(record: MarketplaceRecord, id: str | None = None) -> Sent:
    return Sent(exchange=Exchange(request=_describe(record), status_code=200), external_id=id)


def _describe(record: MarketplaceRecord) -> str:
    hour = format_instant(record.hour)
    return f"BatchMeterUsage {record.dimension} {hour} {record.customer}: {record.quantity}"
