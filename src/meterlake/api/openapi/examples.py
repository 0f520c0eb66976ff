"""Examples of bodies, answers and parameters: of entities as written, of the rest made from schemas."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from meterlake.model.configuration.examples import EXAMPLES
from meterlake.model.resources import BY_ENTITY, Resource, wire_name
from meterlake.model.values.ids import derived_id

Schema = dict[str, Any]

_AT: Final = "2026-02-03T04:05:06Z"
_TIME: Final = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-02-01T00:00:00Z"}
_LINES: Final = ["USAGE", "STANDING_CHARGE"]


def example_id(kind: str, name: str) -> str:
    """The id of an entity of the examples."""
    return derived_id("example", kind, name)


_METER: Final = example_id("Meter", "requests")
_FIELD: Final = {"meterId": _METER, "fieldCode": "bytes", "fieldType": "MEASURE"}
_MEASUREMENT: Final = {
    "uid": "01J1M3TRLK",
    "meter": "requests",
    "account": "acme",
    "ts": "2026-01-15T12:00:00Z",
    "where": {"region": "eu"},
    "measure": {"bytes": 5368709120},
}
_ITEM: Final = {"region": "eu", "factor": 1.25}
_FILE: Final = {"fileName": "january.csv.gz", "contentType": "text/csv", "contentLength": 4096}

_MEMO: Final = {
    "productId": example_id("Product", "cloud"),
    "accountingProductId": example_id("Product", "cloud"),
    "description": "Outage on 14 January",
    "amount": 12.5,
    "referencedBillId": example_id("Bill", "acme"),
    "referencedLineItemId": example_id("Line", "requests"),
    "servicePeriodStartDate": "2026-01-14T00:00:00Z",
    "servicePeriodEndDate": "2026-01-15T00:00:00Z",
}

_PRICE_SCALE: Final = {
    "plans": ["pro", "enterprise"],
    "from": "2026-02-01",
    "by": 1.07,
    "factors": [{"aggregation": "requests", "by": 1.1}],
}

_MAPPING: Final = {
    "name": "flights",
    "files": ["flights*.csv"],
    "account": {"column": "client"},
    "ts": "time",
    "measurements": [
        {
            "meter": "requests",
            "fields": {"measure.bytes": "sent"},
            "constants": {"where.region": "eu"},
        }
    ],
}

# Bodies of operations that are no standard verb, by component.
BODIES: Final[Mapping[str, Any]] = {
    "AccessKeyRequest": {"status": "INACTIVE"},
    "BillJobRequest": {"billDate": "2026-02-01", "billingFrequency": "MONTHLY"},
    "BillJobRecalculateRequest": {"billIds": [example_id("Bill", "january")]},
    "AdHocExport": {
        "sourceType": "USAGE",
        "exportFileFormat": "CSV",
        **_TIME,
        "meterIds": [_METER],
    },
    "PriceScaleProposeRequest": {**_PRICE_SCALE, "effectMonth": "2025-12"},
    "PriceScaleApplyRequest": {**_PRICE_SCALE, "review": "037e39dd6acf7524"},
    "ChangeProposalRequest": {
        "name": "Prices of 2026",
        "reason": "Energy costs more",
        "scale": _PRICE_SCALE,
    },
    "ProposalCommentRequest": {"comment": "As agreed with sales"},
    "ProposalRejectRequest": {"comment": "Enterprise has a price guarantee"},
    "ApproveBillsRequest": {"billIds": [example_id("Bill", "acme")]},
    "CreditLineItemRequest": _MEMO,
    "DebitLineItemRequest": _MEMO,
    "DownloadCsvRequest": {**_TIME, "externalSystem": "STANDARD"},
    "UpdateBillStatusRequest": {"status": "APPROVED"},
    "BackfillRequest": {
        "mode": "re-aggregate",
        "reason": "The aggregation counted twice",
        "month": "2026-01",
        "meters": ["requests"],
    },
    "BalanceTransactionRequest": {"amount": 100, "description": "Top-up by bank transfer"},
    "BearerAccessTokenRequest": {"grant_type": "client_credentials"},
    "EndDateBillingEntitiesRequest": {
        "endDate": "2026-12-31T00:00:00Z",
        "billingEntities": ["CONTRACT", "ACCOUNTPLAN"],
        "applyToChildren": False,
    },
    "GetUploadUrlRequest": _FILE,
    "InboxCheckRequest": {"url": "s3://acme-usage/inbox"},
    "InboxRequest": {"url": "s3://acme-usage/inbox", "afterwards": "move"},
    "LookupTableDataArchivedRequest": {"contentType": "text/csv"},
    "LookupTableDataDownloadJobRequest": {"contentType": "text/csv"},
    "LookupTableDataUploadRequest": {**_FILE, "fileName": "regions.csv"},
    "LookupTableRevisionCopyRequest": {},
    "LookupTableRevisionDataItemDeleteRequest": {"version": 1},
    "LookupTableRevisionDataItemUpsertRequest": {"item": _ITEM},
    "LookupTableRevisionDataRequest": {"items": [_ITEM]},
    "LookupTableRevisionStatusRequest": {"status": "PUBLISHED"},
    "MappingSaveRequest": _MAPPING,
    "MappingTrialRequest": {
        "name": "flights.csv",
        "content": base64.b64encode(b"time,client,sent\n2026-01-15T12:00:00Z,acme,1024\n").decode(),
        "mapping": _MAPPING,
    },
    "OrgUserRequest": {"dtEndAccess": "2027-01-01T00:00:00Z"},
    "PermissionRequest": {},
    "PriceChangePreviewRequest": {
        "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 0.05}],
        "firstMonth": "2026-01",
        "lastMonth": "2026-02",
    },
    "PriceChangeRequest": {
        "startDate": "2026-03-01T00:00:00Z",
        "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 0.05}],
    },
    "PrincipalPermissionRequest": {"principalId": example_id("ServiceUser", "Loader")},
    "QueryBillDataRequest": {**_TIME, "lineItemTypes": _LINES},
    "QueryCommitmentsRequest": _TIME,
    "QueryDimensionValuesRequest": {
        **_TIME,
        "meterCodes": ["requests"],
        "dimensionName": "region",
    },
    "QueryMeterDimensionsRequest": {
        **_TIME,
        "meterCode": "requests",
        "dimensionName": "region",
    },
    "QueryMetersRequest": _TIME,
    "QueryUsageDataRequest": {
        **_TIME,
        "meterCodes": ["requests"],
        "aggregationFrequency": "DAY",
        "measures": [{"name": "bytes", "aggregations": ["SUM"]}],
        "dimensions": [{"name": "region", "filter": ["*"]}],
    },
    "RejectedRowsDismissRequest": {"source": "trial.csv", "because": "a file of a trial"},
    "RejectedRowsReopenRequest": {"source": "trial.csv"},
    "RejectedRowsRequeueRequest": {"reason": "UndefinedMeter"},
    "ResourceGroupItemRequest": {"targetId": example_id("Account", "acme"), "targetType": "ITEM"},
    "SubmitMeasurementsRequest": {"measurements": [_MEASUREMENT]},
    "UsageQueryRequest": {
        **_TIME,
        "meterIds": [_METER],
        "aggregations": [{**_FIELD, "function": "SUM"}],
        "groups": [{"groupType": "TIME", "frequency": "DAY"}],
    },
    "UsageExplainRequest": {
        **_TIME,
        "meterIds": [_METER],
        "aggregations": [{**_FIELD, "function": "SUM"}],
        "groups": [{"groupType": "TIME", "frequency": "DAY"}],
        "group": {"day": "2026-01-15T00:00:00Z"},
    },
    "MeasurementRequest": _MEASUREMENT,
}

_REJECTED: Final = {
    "name": "january.csv.gz",
    "identity": "9f86d081884c7d659a2feaa0c55ad015",
    "attempt": 1,
    "row": 17,
    "reason": "UndefinedMeter",
    "detail": "no meter 'request'; did you mean requests?",
}
# Answers that follow from no declaration alone, by component.
ANSWERS: Final[Mapping[str, Any]] = {
    "AccessKeyResponse": {
        "id": example_id("AccessKey", "loader"),
        "serviceUserId": example_id("ServiceUser", "Loader"),
        "status": "ACTIVE",
        "dtCreated": _AT,
    },
    "EventResponse": {
        "id": example_id("Event", "account"),
        "eventName": "configuration.account.created",
        "eventTime": _AT,
        "m3terEvent": {"eventType": "created", "new": {"code": "acme", "name": "Acme GmbH"}},
    },
    "KeySetResponse": {
        "keys": [
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "alg": "EdDSA",
                "use": "sig",
                "kid": "5b7c0f2e",
                "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            }
        ]
    },
    "MeResponse": {
        "serviceUser": {"id": example_id("ServiceUser", "Loader"), "version": 1, "name": "Loader"}
    },
    "MeasurementReceiptResponse": {
        "uid": "01J1M3TRLK",
        "status": "stored",
        "name": "january.csv.gz",
        "identity": _REJECTED["identity"],
        "attempt": 1,
        "row": 16,
        "receivedAt": _AT,
        "meter": "requests",
        "account": "acme",
        "ts": _MEASUREMENT["ts"],
        "contradicted": [],
        "rejected": [],
    },
    "RejectedRowResponse": {
        "id": "3fa9c1",
        "status": "open",
        **_REJECTED,
        "meter": "request",
        "uid": "01J1M3TRLL",
        "receivedAt": _AT,
        "original": "request,acme,2026-01-15T12:00:00Z,eu,1024",
    },
    "ServerStatusResponse": {"status": "alive"},
    "UploadJobResponse": {
        "id": example_id("UploadJob", "january"),
        "version": 3,
        **_FILE,
        "status": "succeeded",
        "dtCreated": _AT,
        "totalRows": 1000,
        "processedRows": 998,
        "failedRows": 2,
        "repeatedRows": 10,
        "failureReasons": {"UndefinedMeter": 2},
    },
    "UsageQueryResponse": {
        "data": [{"timestamp": "2026-01-15T00:00:00Z", "sum_bytes": 5368709120}],
        "hasMoreData": False,
    },
}

# Values of members and parameters, by name.
VALUES: Final[Mapping[str, Any]] = {
    "version": 1,
    "name": "Acme GmbH",
    "code": "acme",
    "codes": ["acme"],
    "account": "acme",
    "accountName": "Acme GmbH",
    "meter": "requests",
    "meterCode": "requests",
    "meterCodes": ["requests"],
    "uid": "01J1M3TRLK",
    "currency": "EUR",
    "billCurrency": "EUR",
    "email": "ada@acme.example",
    "firstName": "Ada",
    "lastName": "Lovelace",
    "type": "account",
    "fileName": "january.csv.gz",
    "contentType": "text/csv",
    "contentLength": 4096,
    "eventName": "configuration.account.created",
    "eventType": "configuration.account.created",
    "message": "name is required",
    "reason": "UndefinedMeter",
    "failureReason": "NotUploaded",
    "detail": "no meter 'request'; did you mean requests?",
    "dimensionName": "region",
    "fieldCode": "bytes",
    "unit": "GB",
    "result": "accepted",
    "createdBy": "ServiceUser 2f1c",
    "lastModifiedBy": "ServiceUser 2f1c",
    "access_token": "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhY21lIn0.c2lnbmF0dXJl",
    "token_type": "Bearer",
    "expires_in": 18000,
    "token": "c2lnbmVkLXVybA",
    "searchQuery": "name~Acme$currency:EUR",
    "sortBy": "name",
    "nextToken": "eyJjIjoiMjAyNi0wMS0wMSJ9",
    "pageSize": 50,
    "limit": 100,
    "fromDocument": 0,
    "day": "2026-01-15",
    "month": "2026-01",
    "yearMonth": "2026-01",
    "dateMonth": "2026-01",
    "lastDateInBillingPeriod": "2026-01-31",
    "billingFrequency": "MONTHLY",
    "entity": "Account",
    "entityType": "Account",
    "system": "Salesforce",
    "systemName": "Salesforce",
    "externalSystem": "Salesforce",
    "externalTable": "Account",
    "externalId": "0015g00000XyZ",
    "lookupKey": "eu",
    "contactNumber": "+49 30 123456",
    "description": "Traffic in January",
    "quantityUnit": "GB",
    "productName": "Content delivery",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "apiKey": "5b7c0f2e",
    "apiSecret": "shown-once-and-stored-nowhere",
    "format": "csv",
    "additional": ["itemCount"],
    "resource": ["config:account/*"],
    "asOf": _AT,
    "since": "2026-01-01T00:00:00Z",
    "until": "2026-02-01T00:00:00Z",
}
_INSTANTS: Final = ("dt", "date", "ts", "ets", "at", "expir", "created", "started", "finished")
_DEPTH_MAX: Final = 6


def request_example(resource: Resource) -> dict[str, Any]:
    """The body that creates the example of a kind; ids stand where files have codes."""
    document = {name: value for name, value in EXAMPLES[resource.name].items() if name != "id"}
    for path, kind in resource.refs.items():
        document = _with_ids(document, path.split("."), BY_ENTITY[kind].kind)
    return {name: value for name, value in document.items() if name not in resource.path_members}


def response_example(resource: Resource) -> dict[str, Any]:
    """The answer to that."""
    example = EXAMPLES[resource.name]
    name = example.get("code") or example.get("id") or example.get("name") or ""
    members = {each: example[each] for each in resource.path_members if each in example}
    for path, kind in resource.refs.items():
        members = _with_ids(members, path.split("."), BY_ENTITY[kind].kind)
    return {
        "id": example_id(resource.kind, name),
        "version": 1,
        **request_example(resource),
        **members,
        "createdBy": VALUES["createdBy"],
        "dtCreated": _AT,
        "lastModifiedBy": VALUES["lastModifiedBy"],
        "dtLastModified": _AT,
    }


def _with_ids(document: dict[str, Any], steps: list[str], kind: str) -> dict[str, Any]:
    name, rest = wire_name(steps[0]), steps[1:]
    if name not in document:
        return document
    found = document[name]
    several = isinstance(found, list)
    listed = found if several else [found]
    changed = [_with_ids(each, rest, kind) if rest else example_id(kind, each) for each in listed]
    return {**document, name: changed if several else changed[0]}


class Examples:
    """Makes examples of schemas of a document."""

    def __init__(self, components: Mapping[str, Schema], known: Mapping[str, Any]) -> None:
        """Say what there is.

        Args:
            components: The schemas, by name.
            known: Examples that are written, by the name of a component.
        """
        self._components = components
        self._known = known

    def of(self, schema: Schema, name: str = "", depth: int = 0) -> Any:
        """An example of a schema, as the value of a member or parameter of some name."""
        if "$ref" in schema:
            component = schema["$ref"].rpartition("/")[2]
            if component in self._known:
                return self._known[component]
            return self.of(self._components[component], name, depth)
        for key in ("allOf", "anyOf"):
            if key in schema:
                return self.of(schema[key][0], name, depth)
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case _:
                return schema["enum"][0] if "enum" in schema else _scalar(schema, name)

    def has_version(self, media: Schema) -> bool:
        """Whether a body says which version it replaces."""
        component = media["schema"].get("$ref", "").rpartition("/")[2]
        return "version" in self._components.get(component, {}).get("properties", {})

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        members = {
            name: self.of(each, name, depth + 1)
            for name, each in schema.get("properties", {}).items()
            if depth < _DEPTH_MAX or name in required
        }
        return {
            name: name if value is None else value
            for name, value in members.items()
            if name in required or value not in ({}, [], None)
        }

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        if isinstance(VALUES.get(name), list):
            return list(VALUES[name])
        if depth >= _DEPTH_MAX:
            return []
        one = self.of(schema["items"], name.removesuffix("s"), depth + 1)
        # A text that nothing is known of says nothing.
        return [one] * max(1, schema.get("minItems", 1)) if one is not None else []


def _scalar(schema: Schema, name: str) -> Any:
    kind = schema.get("type")
    found = VALUES.get(name)
    if (
        found is not None
        and not isinstance(found, list)
        and (isinstance(found, str) == (kind == "string") and kind != "boolean")
    ):
        return found
    match kind:
        case "boolean":
            return schema.get("default", True)
        case "integer" | "number":
            least = int(schema.get("minimum", 1)) + (1 if schema.get("exclusiveMinimum") else 0)
            return max(least, min(1, int(schema.get("maximum", 1))))
        case "string":
            return _text(schema, name)
        case _:
            return {}


def _text(schema: Schema, name: str) -> str | None:
    lower = name.lower()
    if schema.get("format") == "uuid" or lower == "id" or name.endswith(("Id", "Ids")):
        return example_id("", lower.removesuffix("ids").removesuffix("id"))
    formats: dict[str, str] = {"date": "2026-01-15", "date-time": _AT, "email": VALUES["email"]}
    if schema.get("format") in formats:
        return formats[schema["format"]]
    if "url" in lower:
        return "http://127.0.0.1:8000/downloads/c2lnbmVkLXVybA"
    if lower.startswith(_INSTANTS) or lower.endswith("date"):
        return _AT
    return None
