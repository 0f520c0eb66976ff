"""EXAMPLES: one entity of every kind, as configuration files hold it; together one organization.

A provider of content delivery meters requests, prices what they send, and has one customer. The
configuration reference, the schema of configuration files and the API's document show them.
"""

from decimal import Decimal
from typing import Any, Final

_START: Final = "2026-01-01T00:00:00Z"
_END: Final = "2027-01-01T00:00:00Z"
_YEAR: Final = {"startDate": "2026-01-01", "endDate": "2027-01-01"}
_BANDS: Final = [
    {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": Decimal("0.08")},
    {"lowerLimit": 1000, "fixedPrice": 0, "unitPrice": Decimal("0.05")},
]
_SELECTION: Final = {
    "meterIds": ["requests"],
    "aggregations": [
        {"meterId": "requests", "fieldCode": "bytes", "fieldType": "MEASURE", "function": "SUM"}
    ],
    "groups": [{"groupType": "TIME", "frequency": "DAY"}],
}

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "currencies": {
        "code": "EUR",
        "name": "Euro",
        "maxDecimalPlaces": 2,
        "roundingMode": "HALF_UP",
    },
    "organizationConfig": {
        "timezone": "Europe/Berlin",
        "currency": "EUR",
        "daysBeforeBillDue": 30,
        "yearEpoch": "2026-01-01",
        "monthEpoch": "2026-01-01",
        "weekEpoch": "2026-01-05",
        "dayEpoch": "2026-01-01",
    },
    "customFields": {"account": {"industry": "unknown", "discountPercent": 0}},
    "billConfig": {"billLockDate": "2025-12-31"},
    "creditReasons": {"code": "goodwill", "name": "Goodwill"},
    "debitReasons": {"code": "late_payment", "name": "Late payment"},
    "transactionTypes": {"code": "top_up", "name": "Top-up"},
    "billGroupingKeys": {"code": "department", "name": "Department", "exclusive": False},
    "statementDefinitions": {
        "id": "daily",
        "name": "Daily traffic by region",
        "aggregationFrequency": "DAY",
        "dimensions": [{"meterId": "requests", "name": "region", "filter": ["*"]}],
        "measures": [{"meterId": "requests", "name": "bytes", "aggregations": ["SUM"]}],
    },
    "features": {"beta": True, "preview": True},
    "products": {"code": "cdn", "name": "Content delivery"},
    "meterGroups": {"id": "traffic", "name": "Traffic"},
    "meters": {
        "code": "requests",
        "name": "Requests",
        "productId": "cdn",
        "groupId": "traffic",
        "dataFields": [
            {"category": "WHERE", "code": "region", "name": "Region"},
            {"category": "MEASURE", "code": "bytes", "name": "Bytes sent", "unit": "By"},
        ],
        "derivedFields": [
            {
                "category": "MEASURE",
                "code": "gb",
                "name": "Gigabytes sent",
                "unit": "GBy",
                "calculation": "bytes / 1000000000",
            }
        ],
    },
    "aggregations": {
        "code": "traffic_gb",
        "name": "Traffic",
        "meterId": "requests",
        "targetField": "gb",
        "aggregation": "SUM",
        "quantityPerUnit": 1,
        "unit": "GB",
        "rounding": "NONE",
    },
    "compoundAggregations": {
        "code": "traffic_tb",
        "name": "Traffic in terabytes",
        "productId": "cdn",
        "calculation": "aggregation.traffic_gb / 1000",
        "quantityPerUnit": 1,
        "unit": "TB",
        "rounding": "UP",
    },
    "planTemplates": {
        "code": "cdn-monthly",
        "name": "Content delivery, monthly",
        "productId": "cdn",
        "currency": "EUR",
        "standingCharge": 49,
        "billFrequency": "MONTHLY",
    },
    "plans": {"code": "cdn-standard", "name": "Standard", "planTemplateId": "cdn-monthly"},
    "planGroups": {"code": "web", "name": "Web bundle", "currency": "EUR"},
    "planGroupLinks": {"planGroupId": "web", "planId": "cdn-standard"},
    "pricings": {
        "planId": "cdn-standard",
        "aggregationId": "traffic_gb",
        "startDate": _START,
        "cumulative": True,
        "pricingBands": _BANDS,
    },
    "counters": {"code": "seats", "name": "Seats", "unit": "seat", "productId": "cdn"},
    "counterPricings": {
        "planId": "cdn-standard",
        "counterId": "seats",
        "startDate": _START,
        "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 12}],
    },
    "counterAdjustments": {
        "counterId": "seats",
        "accountId": "acme",
        "date": "2026-01-15",
        "value": 25,
    },
    "accounts": {
        "code": "acme",
        "name": "Acme GmbH",
        "emailAddress": "bills@acme.example",
        "currency": "EUR",
        "address": {"addressLine1": "Lindenallee 1", "postCode": "10115", "country": "Germany"},
        "customFields": {"industry": "media"},
    },
    "contracts": {
        "code": "acme-2026",
        "name": "Acme 2026",
        "accountId": "acme",
        **_YEAR,
        "purchaseOrderNumber": "PO-4711",
    },
    "accountPlans": {
        "code": "acme-standard",
        "accountId": "acme",
        "planId": "cdn-standard",
        "contractId": "acme-2026",
        "startDate": _START,
    },
    "balances": {
        "code": "acme-prepaid",
        "name": "Prepaid credit",
        "accountId": "acme",
        "currency": "EUR",
        "startDate": _START,
        "endDate": _END,
        "lineItemTypes": ["USAGE"],
    },
    "balanceChargeSchedules": {
        "balanceId": "acme-prepaid",
        "code": "acme-prepaid-fee",
        "name": "Fee for prepaid credit",
        "currency": "EUR",
        "servicePeriodStartDate": _START,
        "servicePeriodEndDate": _END,
        "billFrequency": "MONTHLY",
        "billFrequencyInterval": 1,
        "billInAdvance": True,
        "chargeDescription": "Prepaid credit",
        "amount": 5,
    },
    "balanceTransactionSchedules": {
        "balanceId": "acme-prepaid",
        "code": "acme-monthly-top-up",
        "name": "Monthly top-up",
        "amount": 100,
        "transactionDescription": "Top-up",
        "transactionTypeId": "top_up",
        "startDate": _START,
        "endDate": _END,
        "frequency": "MONTHLY",
        "frequencyInterval": 1,
    },
    "commitments": {
        "accountId": "acme",
        "currency": "EUR",
        "amount": 1200,
        **_YEAR,
        "productIds": ["cdn"],
        "feeDates": [
            {
                "date": "2026-01-31",
                "amount": 1200,
                "servicePeriodStartDate": _START,
                "servicePeriodEndDate": _END,
            }
        ],
    },
    "charges": {
        "code": "acme-setup",
        "name": "Setup",
        "accountId": "acme",
        "currency": "EUR",
        "entityType": "AD_HOC",
        "lineItemType": "AD_HOC",
        "servicePeriodStartDate": _START,
        "servicePeriodEndDate": "2026-02-01T00:00:00Z",
        "billDate": "2026-02-01",
        "amount": 250,
        "description": "Setup of the first site",
    },
    "lookupTables": {"code": "regions", "name": "Prices by region"},
    "lookupTableRevisions": {
        "lookupTableId": "regions",
        "name": "2026",
        "startDate": _START,
        "fields": [{"type": "STRING", "name": "region"}, {"type": "NUMBER", "name": "factor"}],
        "keys": ["region"],
    },
    "usageSavedQueries": {
        "name": "Traffic by day",
        "usageQuery": {"timePeriod": "LAST_30_DAYS", **_SELECTION},
    },
    "exportDestinations": {
        "code": "warehouse",
        "name": "Data warehouse",
        "destinationType": "S3",
        "bucketName": "acme-usage",
        "prefix": "meterlake",
        "iamRoleArn": "arn:aws:iam::123456789012:role/meterlake-export",
    },
    "exportSchedules": {
        "code": "daily-usage",
        "name": "Daily usage",
        "sourceType": "USAGE",
        "timePeriod": "YESTERDAY",
        "scheduleType": "DAY",
        "period": 1,
        "destinationIds": ["warehouse"],
        **_SELECTION,
    },
    "notificationConfigurations": {
        "code": "account-created",
        "name": "New account",
        "description": "Tells when an account is created",
        "eventName": "configuration.account.created",
        "alwaysFireEvent": True,
    },
    "scheduledEventConfigurations": {
        "name": "scheduled.bill.reminder",
        "entity": "Bill",
        "field": "endDate",
        "offset": 5,
    },
    "webhooks": {
        "code": "chat",
        "name": "Chat",
        "description": "The channel of the billing team",
        "url": "https://hooks.acme.example/meterlake",
        "credentials": {
            "type": "M3TER_SIGNED_REQUEST",
            "apiKey": "chat-key",
            "secret": "chat-secret",
        },
    },
    "integrationConfigs": {
        "name": "Notifications to the chat",
        "entityType": "Notification",
        "destination": "Webhook",
        "destinationId": "chat",
    },
    "externalMappings": {
        "m3terEntity": "Account",
        "m3terId": "acme",
        "externalSystem": "Salesforce",
        "externalTable": "Account",
        "externalId": "0015g00000XyZ",
    },
    # No configuration files hold these; the API's document shows them.
    "permissionPolicies": {
        "name": "Send measurements",
        "permissionPolicy": [
            {"effect": "ALLOW", "action": ["MEASUREMENTS_UPLOAD"], "resource": ["measurements:*"]}
        ],
    },
    "serviceUsers": {"name": "Loader"},
    "resourceGroups": {"type": "account", "name": "Customers in the north"},
    "invitations": {
        "firstName": "Ada",
        "lastName": "Lovelace",
        "email": "ada@acme.example",
        "dtEndAccess": _END,
    },
    "customerLinks": {
        "accountId": "acme",
        "name": "Portal of Acme",
        "dtExpiry": _END,
        "allowedOrigins": ["https://portal.acme.example"],
    },
    "supportAccess": {"dtEndSupportUsersAccess": _END},
}
