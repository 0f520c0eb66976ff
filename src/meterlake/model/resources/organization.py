"""The organization: its settings, its custom fields, and its picklists."""

from typing import Final

from meterlake.model.organization import Currency, CustomFields, OrganizationConfig
from meterlake.model.resources.resource import CODES, IDS, SINGLETON, Filter, Resource
from meterlake.model.rules.custom_fields import custom_fields_not_in_use_stay
from meterlake.model.rules.organization import (
    currency_code_stays,
    one_rate_per_pair,
    timezone_exists,
)

ROWS: Final = (
    Resource(
        name="currencies",
        path="picklists/currency",
        entity=Currency,
        rules=(currency_code_stays,),
        schema="Currency",
        permission="currency",
        filters=(IDS, CODES, Filter("archived", kind="flag")),
    ),
    Resource(
        name="organizationConfig",
        path="organizationconfig",
        entity=OrganizationConfig,
        codes={
            "currency": Currency,
            "currency_conversions.from_": Currency,
            "currency_conversions.to": Currency,
        },
        singleton=True,
        rules=(timezone_exists, one_rate_per_pair),
        schema="OrganizationConfig",
        permission="organizationconfig",
        event="configuration.organizationconfig",
        verbs=SINGLETON,
    ),
    Resource(
        name="customFields",
        path="customfields",
        entity=CustomFields,
        singleton=True,
        rules=(custom_fields_not_in_use_stay,),
        schema="CustomFields",
        permission="customfield",
        event="configuration.customfield",
        verbs=SINGLETON,
    ),
)
