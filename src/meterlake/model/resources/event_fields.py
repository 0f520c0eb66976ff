"""The fields of what events carry, and their types, for calculations that name them."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel

from meterlake.model.bills.members import BILL_MEMBERS, ShownIn, members_in
from meterlake.model.resources import Resource
from meterlake.model.values.entity import Entity

STRING: Final = "string"
DOUBLE: Final = "double"
INT: Final = "int"
BOOLEAN: Final = "boolean"
MAP: Final = "map"
ARRAY: Final = "array"

# The first class that fits decides; what is none of them is shown as text.
_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, BOOLEAN),
    (int, INT),
    (Decimal, DOUBLE),
    (BaseModel, MAP),
    (dict, MAP),
    (tuple, ARRAY),
    (list, ARRAY),
    (frozenset, ARRAY),
)

ENVELOPE: Final[Mapping[str, str]] = {
    "id": STRING,
    "version": INT,
    "orgId": STRING,
    "createdBy": STRING,
    "dtCreated": STRING,
    "lastModifiedBy": STRING,
    "dtLastModified": STRING,
}

_CONTAINERS: Final = (tuple, list, dict, frozenset)

# The members that `computed` of a resource adds, by the stem of its events.
COMPUTED: Final[Mapping[str, Mapping[str, str]]] = {
    "billing.balance": {"amount": DOUBLE},
    "billing.charge": {"billId": STRING, "scheduleId": STRING},
    "billing.scheduledbalancecharge": {"nextRun": STRING, "previousRun": STRING},
    "billing.scheduledbalancetransaction": {"nextRun": STRING, "previousRun": STRING},
    "configuration.accountplan": {"productId": STRING},
    "configuration.commitment": {"amountSpent": DOUBLE},
    "configuration.compoundaggregation": {"segments": ARRAY},
    "configuration.plan": {"productId": STRING},
    "configuration.pricing": {"aggregationType": STRING, "segmentString": STRING},
}


def type_of(annotation: Any) -> str:
    """The type of a field as events know types.

    >>> type_of(tuple[str, ...]), type_of(Decimal | None)
    ('array', 'double')
    """
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, dict | tuple | list | frozenset):
        annotation = origin
    elif origin is Annotated:
        return type_of(get_args(annotation)[0])
    elif origin is not None:  # a union, or an alias of one
        return type_of(next(each for each in get_args(annotation) if each is not NoneType))
    if not isinstance(annotation, type):
        return STRING
    return next((name for kind, name in _TYPES if issubclass(annotation, kind)), STRING)


# What has events of its changes and is no configuration resource.
OTHERS: Final[Mapping[str, Mapping[str, str]]] = {
    "billing.balanceamount": {
        "accountId": STRING,
        "accountCode": STRING,
        "balanceId": STRING,
        "code": STRING,
        "name": STRING,
        "currency": STRING,
        "amount": DOUBLE,
    },
    "billing.bill": {
        each.name: type_of(each.type) for each in members_in(BILL_MEMBERS, ShownIn.EVENT)
    },
    "billing.billjob": {
        "accountIds": ARRAY,
        "billDate": STRING,
        "billFrequencyInterval": INT,
        "billIds": ARRAY,
        "billingFrequency": STRING,
        "currencyConversions": ARRAY,
        "dayEpoch": STRING,
        "dueDate": STRING,
        "error": STRING,
        "externalInvoiceDate": STRING,
        "failureCount": INT,
        "failures": ARRAY,
        "lastDateInBillingPeriod": STRING,
        "message": STRING,
        "monthEpoch": STRING,
        "outcome": STRING,
        "pending": INT,
        "status": STRING,
        "targetCurrency": STRING,
        "timezone": STRING,
        "total": INT,
        "type": STRING,
        "weekEpoch": STRING,
        "yearEpoch": STRING,
    },
    "billing.statementjob": {
        "billId": STRING,
        "csvStatementStatus": STRING,
        "error": STRING,
        "filters": MAP,
        "includeCsvFormat": BOOLEAN,
        "jsonStatementStatus": STRING,
        "statementJobStatus": STRING,
    },
    "configuration.alert": {"name": STRING, "code": STRING, "message": STRING},
    "configuration.metergroup": {"name": STRING},
    "configuration.organization": {
        "customerId": STRING,
        "organizationName": STRING,
        "shortName": STRING,
        "addressLine1": STRING,
        "addressLine2": STRING,
        "addressLine3": STRING,
        "addressLine4": STRING,
        "locality": STRING,
        "region": STRING,
        "postCode": STRING,
        "country": STRING,
        "taxId": STRING,
        "purchaseOrderNumber": STRING,
        "invoiceGeneralReference": STRING,
        "type": STRING,
        "status": STRING,
    },
    "configuration.pricingband": {
        "lowerLimit": DOUBLE,
        "fixedPrice": DOUBLE,
        "unitPrice": DOUBLE,
        "creditTypeId": STRING,
    },
}

# The fields of these, of the envelope and of what is computed, that hold dates or instants.
DATES: Final = frozenset(
    {
        "billDate",
        "createdDate",
        "dtApproved",
        "dtCreated",
        "dtLastModified",
        "dtLocked",
        "dueDate",
        "endDate",
        "endDateTimeUTC",
        "externalInvoiceDate",
        "lastCalculatedDate",
        "lastDateInBillingPeriod",
        "nextRun",
        "previousRun",
        "startDate",
        "startDateTimeUTC",
    }
)

_INTEGRATION: Final[Mapping[str, str]] = {
    "name": STRING,
    "date": STRING,
    "message": STRING,
    "integrationConfigId": STRING,
    "integrationRunId": STRING,
    "entityType": STRING,
    "entityId": STRING,
    "destination": STRING,
    "destinationId": STRING,
    "accountId": STRING,
}
# Events that are no change of anything; they have fields of their own and no envelope.
FAILURES: Final[Mapping[str, Mapping[str, str]]] = {
    "dataexport.job.failure": {
        "jobId": STRING,
        "scheduleId": STRING,
        "date": STRING,
        "message": STRING,
    },
    "ingest.validation.failure": {
        "date": STRING,
        "message": STRING,
        "failures": INT,
        "getDownloadUrl": STRING,
        "file": STRING,
        "fileRows": INT,
        "name": STRING,
        "status": STRING,
        "jobId": STRING,
        "deliveryId": STRING,
        "identity": STRING,
        "attempt": INT,
        "received": INT,
        "accepted": INT,
        "repeats": INT,
        "rejected": INT,
        "incomplete": INT,
        "reasons": MAP,
        "reason": STRING,
    },
    "integration.authentication.error": _INTEGRATION,
    "integration.disabled.error": _INTEGRATION,
    "integration.missingaccountmapping.error": {**_INTEGRATION, "externalTable": STRING},
    "integration.perform.error": _INTEGRATION,
    # Also of a notification whose calculation has no answer.
    "integration.validation.error": {**_INTEGRATION, "notificationId": STRING},
}

_ALERT: Final[Mapping[str, str]] = {"date": STRING, "message": STRING}
# Our own events: something is not as it should be, or late usage was decided. They have fields of
# their own, too.
ALERTS: Final[Mapping[str, Mapping[str, str]]] = {
    "bills.lateusage.decision": {
        "id": STRING,
        "status": STRING,
        "accountId": STRING,
        "accountCode": STRING,
        "period": STRING,
        "billId": STRING,
        "billDate": STRING,
        "billVersion": INT,
        "currency": STRING,
        "difference": DOUBLE,
        "measurements": INT,
        "newBillVersion": INT,
        "reason": STRING,
        "dtFound": STRING,
        "dtDecided": STRING,
    },
    "bills.verification.alert": {**_ALERT, "differences": ARRAY},
    "ingest.books.alert": {**_ALERT, "differences": ARRAY},
    "ingest.freshness.alert": {
        **_ALERT,
        "meterId": STRING,
        "meterCode": STRING,
        "lastReceived": STRING,
        "hours": DOUBLE,
    },
    "ingest.overduefile.alert": {
        **_ALERT,
        "name": STRING,
        "pattern": STRING,
        "period": STRING,
        "due": STRING,
    },
    "ingest.rejectrate.alert": {
        **_ALERT,
        "received": INT,
        "rejected": INT,
        "rate": DOUBLE,
        "threshold": DOUBLE,
        "hours": DOUBLE,
    },
    "ingest.upload.alert": {**_ALERT, "jobId": STRING, "name": STRING, "eventId": STRING},
}


def of_resource(row: Resource) -> dict[str, str]:
    """The fields of an entity in its events: what a caller writes, the envelope, what is computed."""
    return {**ENVELOPE, **of_entity(row.entity), **COMPUTED.get(row.event or "", {})}


def dates_of_resource(row: Resource) -> list[str]:
    """The fields of an entity in its events that hold dates or instants."""
    own = row.entity.model_fields
    aliases = {field.alias or name: field for name, field in own.items()}
    return [
        name
        for name in of_resource(row)
        if (name in DATES if name not in aliases else _is_date(aliases[name].annotation))
    ]


def _is_date(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, date)
    return get_origin(annotation) not in _CONTAINERS and any(map(_is_date, get_args(annotation)))


def of_entity(kind: type[Entity]) -> dict[str, str]:
    """The fields that a caller may write, by their wire names, and the code of their account."""
    fields = {
        field.alias or name: type_of(field.annotation) for name, field in kind.model_fields.items()
    }
    return {**fields, "accountCode": STRING} if "account_id" in kind.model_fields else fields


def of_other(stem: str) -> dict[str, str]:
    """The fields of what is no configuration resource."""
    return {**ENVELOPE, **OTHERS[stem]}
