"""The connector of the AWS Marketplace: the cents of a bill, as usage of a dimension of one cent each.

What is reported is a difference: what the account owes, less what was reported. Records are written
down before they are sent together, and one whose answer got lost is sent again as it was.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

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
from meterlake.pipeline.integrations.http_client import TIMEOUT_S
from meterlake.stores.state.integrations.marketplace import (
    CURRENCY,
    MarketplaceRecord,
    Unsettled,
    accept_record,
    forget_record,
    plan_record,
)

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError

    from meterlake.stores.objects.roles import Role


RECORDS_MAX: Final = 25
_ACCOUNT_DIGITS: Final = 12
_SERVER: Final = 500
_CLIENTS: Final = 64
_THROTTLED: Final = frozenset({"ThrottlingException", "Throttling", "RequestLimitExceeded"})
# Credentials that are not good any more; there may be newer ones.
_STALE: Final = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException"),
        *("InvalidClientTokenId", "SignatureDoesNotMatch"),
    }
)
_UNKNOWN: Final = _STALE | {"AccessDenied", "AccessDeniedException"}
# What a whole call is refused for although one record alone may be the reason.
_OF_ONE: Final = frozenset(
    {
        *("InvalidCustomerIdentifierException", "InvalidUsageDimensionException"),
        *("InvalidUsageAllocationsException", "InvalidTagException"),
        "TimestampOutOfBoundsException",
    }
)
# What one record can hold.
QUANTITY_MAX: Final = 2**31 - 1
_TABLE: Final = "Customer"


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of one record.

    Attributes:
        kind: Why it was not taken; None if it was.
        error: What people read about that.
        is_known: Whether it is sure that this call did not bring it there.
        is_judged: Whether it is sure of all earlier calls, too, as the record itself was refused.
        id: What the marketplace calls it.
    """

    kind: FailureKind | None = None
    error: str = ""
    is_known: bool = True
    is_judged: bool = False
    id: str | None = None


Replies = dict[MarketplaceRecord, Reply]


class MeteringCall:
    """Sends records of one configuration."""

    def __init__(self, outgoing: Outgoing, bill: SentBill) -> None:
        self._outgoing, self._bill = outgoing, bill

    def send(self, records: Sequence[MarketplaceRecord]) -> Replies:
        """Send up to 25 records in one call; if it is refused for one of them, each in its own."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - slow to import

        try:
            # What the answer says of each record; of some it may say nothing.
            answer = self._call(records)
            results = {_key_of(each["UsageRecord"]): each for each in answer.get("Results") or ()}
            left = {_key_of(each) for each in answer.get("UnprocessedRecords") or ()}
            dimension = self._bill.options.dimension
            keys = {each: _key_of(_usage_record(each, dimension)) for each in records}
            return {
                each: _read_result(results.get(key), is_left=key in left)
                for each, key in keys.items()
            }
        except ClientError as error:
            if len(records) > 1 and _code_of(error) in _OF_ONE:
                return {key: reply for each in records for key, reply in self.send([each]).items()}
            return dict.fromkeys(records, _read_error(error))
        except BotoCoreError as error:
            lost = Reply(FailureKind.UNAVAILABLE, str(error), is_known=_is_unsent(error))
            return dict.fromkeys(records, lost)

    def _call(self, records: Sequence[MarketplaceRecord]) -> Any:
        from botocore.exceptions import ClientError  # noqa: PLC0415 - see above

        options, settings = self._bill.options, self._outgoing.organization.settings
        key = (self._role(), options.region, settings.marketplace_endpoint)
        listed = [_usage_record(each, options.dimension) for each in records]
        facts = {"ProductCode": options.product_code, "UsageRecords": listed}
        try:
            return _client(*key).batch_meter_usage(**facts)
        except ClientError as error:
            if _code_of(error) not in _STALE:
                raise
        _client.cache_clear()
        return _client(*key).batch_meter_usage(**facts)

    def _role(self) -> "Role | None":
        from meterlake.stores.objects.roles import Role  # noqa: PLC0415 - it imports boto3

        credentials, settings = self._bill.credentials, self._outgoing.organization.settings
        if credentials is None or not credentials.role_arn or settings.export_credentials == "own":
            return None
        # The external id cannot be chosen: else one organization could name another one's role.
        return Role(credentials.role_arn, self._outgoing.organization.id, settings.sts_endpoint)


def _usage_record(record: MarketplaceRecord, dimension: str) -> dict[str, Any]:
    is_account = len(record.customer) == _ACCOUNT_DIGITS and record.customer.isdigit()
    return {
        "Timestamp": record.hour,
        "CustomerAWSAccountId" if is_account else "CustomerIdentifier": record.customer,
        "Dimension": dimension,
        "Quantity": record.quantity,
    }


def _key_of(usage_record: Mapping[str, Any]) -> tuple[str, str, datetime]:
    names = ("CustomerAWSAccountId", "CustomerIdentifier")
    customer = next((usage_record[name] for name in names if usage_record.get(name)), "")
    return customer, usage_record["Dimension"], usage_record["Timestamp"]


def _read_result(result: Mapping[str, Any] | None, *, is_left: bool) -> Reply:
    if result is None:
        error = "the marketplace has not processed the record"
        return Reply(FailureKind.UNAVAILABLE, error, is_known=is_left)
    status = result.get("Status")
    if status == "Success":
        return Reply(id=result.get("MeteringRecordId"))
    return Reply(FailureKind.REJECTED, f"the marketplace answered {status}", is_judged=True)


def _read_error(error: "ClientError") -> Reply:
    """What a call says that was refused as a whole: nothing of it counts, unless it failed there."""
    code, said = _code_of(error), f"AWS: {error}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", _SERVER)
    if code in _THROTTLED:
        return Reply(FailureKind.RATE_LIMITED, said)
    if status >= _SERVER:
        return Reply(FailureKind.UNAVAILABLE, said, is_known=False)
    kind = FailureKind.UNAUTHENTICATED if code in _UNKNOWN else FailureKind.REJECTED
    return Reply(kind, said)


def _is_unsent(error: "BotoCoreError") -> bool:
    """Whether it is sure that nothing left this machine."""
    from botocore import exceptions as known  # noqa: PLC0415 - slow to import

    unconnected = (known.EndpointConnectionError, known.ConnectTimeoutError)
    return isinstance(
        error, (*unconnected, known.NoCredentialsError, known.CredentialRetrievalError)
    )


def _code_of(error: "ClientError") -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@lru_cache(maxsize=_CLIENTS)
def _client(role: "Role | None", region: str, endpoint: str | None) -> Any:
    """A client that renews the credentials of its role; making one takes a tenth of a second."""
    from botocore.config import Config  # noqa: PLC0415 - slow to import

    from meterlake.stores.objects.roles import session  # noqa: PLC0415

    limits = Config(
        connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1}
    )
    return session(role).client(
        "meteringmarketplace", region_name=region, endpoint_url=endpoint, config=limits
    )


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
        with first.organization.transaction(AUTHOR) as transaction:
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
            wanted.append(
                _Report(
                    each,
                    bill,
                    MarketplaceRecord(
                        customer=customer,
                        dimension=_dimension_of(bill),
                        hour=each.time.astimezone(UTC),
                        system=AWS.name,
                        account_id=bill.stored.content.key.account_id,
                        bill_id=bill.stored.id,
                        run_key=each.content.run_key,
                        quantity=0,
                    ),
                )
            )
    return outcomes, wanted


def _check(outgoing: Outgoing, bill: SentBill) -> str | Failed:
    """The customer of a bill; or why nothing can be reported."""
    if bill.document["currency"] != CURRENCY:
        error = f"the marketplace takes {CURRENCY}, the bill is in {bill.document['currency']}"
        return Failed(kind=FailureKind.INVALID, error=error)
    role = None if bill.credentials is None else bill.credentials.role_arn
    if role is None and outgoing.organization.settings.export_credentials != "own":
        error = "the integration names no role (credentials.roleArn)"
        return Failed(kind=FailureKind.UNAUTHENTICATED, error=error)
    account_id = bill.stored.content.key.account_id
    customer = bill.mapped("Account", account_id)
    if customer is None:
        error = f"account {bill.account.get('code', account_id)} is mapped to no customer"
        details = {"accountId": account_id, "externalTable": _TABLE}
        return Failed(kind=FailureKind.MAPPING_MISSING, error=error, details=details)
    return customer


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
    with first.organization.transaction(AUTHOR) as transaction:
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
