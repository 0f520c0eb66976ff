"""The connector of the AWS Marketplace: the cents of a bill, as usage of a dimension of one cent each.

What is reported is a difference: what the account owes, less what was reported. A record is written
down before it is sent, and one whose answer got lost is sent again as it was.
"""

import asyncio
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from meterlake.model.integration_systems import AWS
from meterlake.model.period import format_instant
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
    HOUR,
    HOURS_BACK,
    MarketplaceRecord,
    Unsettled,
    accept_record,
    forget_record,
    plan_record,
)

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

# What one record can hold.
QUANTITY_MAX: Final = 2**31 - 1
_CURRENCY: Final = "USD"
_TABLE: Final = "Customer"
_ACCOUNT_DIGITS: Final = 12
_THROTTLED: Final = frozenset({"ThrottlingException", "Throttling", "RequestLimitExceeded"})
_UNKNOWN: Final = frozenset(
    {
        *("AccessDenied", "AccessDeniedException", "UnrecognizedClientException"),
        *("InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException"),
    }
)


class MarketplaceConnector:
    """Reports bills as usage."""

    declaration: Final = AWS
    concurrency: Final = 1

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Report what the account of a bill owes beyond what was reported."""
        return await asyncio.to_thread(_report, outgoing)


def _report(outgoing: Outgoing) -> Outcome:
    bill = read_bill(outgoing)
    if isinstance(bill, Failed):
        return bill
    customer = _check(outgoing, bill)
    if isinstance(customer, Failed):
        return customer
    wanted = MarketplaceRecord(
        customer=customer,
        dimension=f"{bill.options.product_code}-{bill.options.dimension}",
        hour=outgoing.time.astimezone(UTC),
        system=AWS.name,
        account_id=bill.stored.content.key.account_id,
        bill_id=bill.stored.id,
        run_key=outgoing.idempotency_key,
        quantity=0,
    )
    with outgoing.stores.state.transaction(outgoing.org_id, AUTHOR) as transaction:
        planned = plan_record(transaction, wanted, outgoing.time)
    if isinstance(planned, Unsettled):
        return _describe_rest(planned)
    return _sent(planned) if planned.accepted else _send(outgoing, bill, planned)


def _check(outgoing: Outgoing, bill: SentBill) -> str | Failed:
    """The customer of a bill; or why nothing can be reported."""
    if bill.document["currency"] != _CURRENCY:
        error = f"the marketplace takes {_CURRENCY}, the bill is in {bill.document['currency']}"
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


def _describe_rest(rest: Unsettled) -> Outcome:
    if rest.wait is not None:
        error = f"all hours have a record already; {rest.cents} cents wait for the next one"
        return Failed(kind=FailureKind.RATE_LIMITED, error=error, retry_after=rest.wait)
    said = "nothing is to be reported"
    if rest.cents < 0:
        said = f"{-rest.cents} cents were reported too many: later bills are lowered by them"
    return Sent(exchange=Exchange(request=said))


def _send(outgoing: Outgoing, bill: SentBill, record: MarketplaceRecord) -> Outcome:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - slow to import

    exchange = Exchange(request=_describe(record))
    if outgoing.time - record.hour >= (HOURS_BACK + 1) * HOUR:
        error = "nobody knows whether the record arrived, and it is too old to be sent again"
        return Failed(kind=FailureKind.REJECTED, error=error, exchange=exchange)
    if record.quantity > QUANTITY_MAX:
        _forget(outgoing, record)
        error = f"{record.quantity} cents do not fit one record: at most {QUANTITY_MAX}"
        return Failed(kind=FailureKind.INVALID, error=error, exchange=exchange)
    try:
        answer = _client(outgoing, bill).batch_meter_usage(
            ProductCode=bill.options.product_code,
            UsageRecords=[_usage_record(record, bill.options.dimension)],
        )
    except ClientError as error:
        return _read_error(outgoing, record, error, exchange)
    except BotoCoreError as error:
        return Failed(kind=FailureKind.UNAVAILABLE, error=str(error), exchange=exchange)
    return _read_answer(outgoing, record, answer, exchange)


def _usage_record(record: MarketplaceRecord, dimension: str) -> dict[str, Any]:
    is_account = len(record.customer) == _ACCOUNT_DIGITS and record.customer.isdigit()
    return {
        "Timestamp": record.hour,
        "CustomerAWSAccountId" if is_account else "CustomerIdentifier": record.customer,
        "Dimension": dimension,
        "Quantity": record.quantity,
    }


def _read_answer(
    outgoing: Outgoing, record: MarketplaceRecord, answer: Any, exchange: Exchange
) -> Outcome:
    results = answer.get("Results") or []
    if answer.get("UnprocessedRecords") or len(results) != 1:
        error = "the marketplace has not processed the record"
        return Failed(kind=FailureKind.UNAVAILABLE, error=error, exchange=exchange)
    status = results[0].get("Status")
    if status == "Success":
        with outgoing.stores.state.transaction(outgoing.org_id, AUTHOR) as transaction:
            accept_record(transaction, record)
        return _sent(record, results[0].get("MeteringRecordId"))
    _forget(outgoing, record)
    error = f"the marketplace answered {status}"
    return Failed(kind=FailureKind.REJECTED, error=error, exchange=exchange)


def _read_error(
    outgoing: Outgoing, record: MarketplaceRecord, error: "ClientError", exchange: Exchange
) -> Failed:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    kind = FailureKind.REJECTED
    if code in _THROTTLED:
        kind = FailureKind.RATE_LIMITED
    elif status >= 500:  # noqa: PLR2004
        kind = FailureKind.UNAVAILABLE
    else:
        # It was refused as a whole: nothing of it counts.
        _forget(outgoing, record)
        kind = FailureKind.UNAUTHENTICATED if code in _UNKNOWN else kind
    return Failed(kind=kind, error=f"AWS: {error}"[:1000], exchange=exchange)


def _forget(outgoing: Outgoing, record: MarketplaceRecord) -> None:
    with outgoing.stores.state.transaction(outgoing.org_id, AUTHOR) as transaction:
        forget_record(transaction, record)


def _sent(record: MarketplaceRecord, id: str | None = None) -> Sent:
    return Sent(exchange=Exchange(request=_describe(record), status_code=200), external_id=id)


def _describe(record: MarketplaceRecord) -> str:
    hour = format_instant(record.hour)
    return f"BatchMeterUsage {record.dimension} {hour} {record.customer}: {record.quantity}"


def _client(outgoing: Outgoing, bill: SentBill) -> Any:
    from botocore.config import Config  # noqa: PLC0415 - slow to import

    from meterlake.stores.objects.roles import Role, session  # noqa: PLC0415

    settings, credentials = outgoing.stores.settings, bill.credentials
    role = None
    if credentials is not None and credentials.role_arn is not None:
        # The external id cannot be chosen: else one organization could name another one's role.
        role = Role(credentials.role_arn, outgoing.org_id, settings.sts_endpoint)
    limits = Config(
        connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1}
    )
    return session(role).client(
        "meteringmarketplace",
        region_name=bill.options.region,
        endpoint_url=settings.marketplace_endpoint,
        config=limits,
    )
