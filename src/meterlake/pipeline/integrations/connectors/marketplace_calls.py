"""Calls of the metering service of the AWS Marketplace: at most 25 records of one product in each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from meterlake.pipeline.integrations.connectors.billed import SentBill
from meterlake.pipeline.integrations.connectors.connector import FailureKind, Outgoing
from meterlake.pipeline.integrations.http_client import TIMEOUT_S
from meterlake.stores.state.integrations.marketplace import MarketplaceRecord

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
            return self._read_answer(records, self._call(records))
        except ClientError as error:
            if len(records) > 1 and _code_of(error) in _OF_ONE:
                return {key: reply for each in records for key, reply in self.send([each]).items()}
            return dict.fromkeys(records, _read_error(error))
        except BotoCoreError as error:
            lost = Reply(FailureKind.UNAVAILABLE, str(error), is_known=_is_unsent(error))
            return dict.fromkeys(records, lost)

    def _call(self, records: Sequence[MarketplaceRecord]) -> Any:
        from botocore.exceptions import ClientError  # noqa: PLC0415 - see above

        options, settings = self._bill.options, self._outgoing.stores.settings
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

        credentials, settings = self._bill.credentials, self._outgoing.stores.settings
        if credentials is None or not credentials.role_arn or settings.export_credentials == "own":
            return None
        # The external id cannot be chosen: else one organization could name another one's role.
        return Role(credentials.role_arn, self._outgoing.org_id, settings.sts_endpoint)

    def _read_answer(
        self, records: Sequence[MarketplaceRecord], answer: Mapping[str, Any]
    ) -> Replies:
        """What the answer says of each record; of some it may say nothing."""
        results = {_key_of(each["UsageRecord"]): each for each in answer.get("Results") or ()}
        left = {_key_of(each) for each in answer.get("UnprocessedRecords") or ()}
        dimension = self._bill.options.dimension
        keys = {each: _key_of(_usage_record(each, dimension)) for each in records}
        return {
            each: _read_result(results.get(key), is_left=key in left) for each, key in keys.items()
        }


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
