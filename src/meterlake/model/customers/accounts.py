"""Accounts of customers, field by field, and the plans they are on.

An account's name, address and e-mail address are the only fields of a configuration that may hold
personal data; no other field is meant for any, nor named as if it were.

Parent and child accounts: who is billed for what a plan charges. Links to the page of one customer.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from meterlake.model.configuration.organization import (
    BillCreditType,
    CurrencyCode,
    StatementAutoGenerateMode,
)
from meterlake.model.values.entity import Configuration, Entity, Value
from meterlake.model.values.fields import (
    Code,
    CustomFieldMap,
    Day,
    Days,
    Email,
    Flag,
    Id,
    Instant,
    Name,
    Text,
)

# Where pages of links are, below the server's address.
PAGE_PATH: Final = "/customer"
# What a browser calls the origin of a page; nothing else may stand in a policy.
Origin = Annotated[
    Text, Field(max_length=255, pattern=r"^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$")
]


class ChildBillingMode(StrEnum):
    """On whose bill the usage of child accounts stands."""

    PARENT_BREAKDOWN = "PARENT_BREAKDOWN"
    PARENT_SUMMARY = "PARENT_SUMMARY"
    CHILD = "CHILD"


class BillingEntity(StrEnum):
    """What an account or a contract may have that ends."""

    CONTRACT = "CONTRACT"
    ACCOUNTPLAN = "ACCOUNTPLAN"
    PREPAYMENT = "PREPAYMENT"
    PRICINGS = "PRICINGS"
    COUNTER_PRICINGS = "COUNTER_PRICINGS"


class EndDateBillingEntities(Value):
    """The wish that what an account or a contract has ends together."""

    end_date: Instant
    billing_entities: Annotated[tuple[BillingEntity, ...], Field(min_length=1)]
    apply_to_children: Flag = False


class Address(Value):
    """A postal address."""

    address_line1: Annotated[Text, Field(max_length=50)] | None = None
    address_line2: Annotated[Text, Field(max_length=50)] | None = None
    address_line3: Annotated[Text, Field(max_length=200)] | None = None
    address_line4: Annotated[Text, Field(max_length=200)] | None = None
    locality: Annotated[Text, Field(max_length=100)] | None = None
    region: Annotated[Text, Field(max_length=50)] | None = None
    post_code: Annotated[Text, Field(max_length=20)] | None = None
    country: Annotated[Text, Field(max_length=100)] | None = None


class Account(Entity):
    """The account of an end customer, who uses and pays."""

    name: Name
    code: Code
    email_address: Email
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    address: Address | None = None
    parent_account_id: Id | None = None
    bill_epoch: Day | None = None
    purchase_order_number: Annotated[Text, Field(max_length=100)] | None = None
    currency: CurrencyCode | None = None
    statement_definition_id: Id | None = None
    auto_generate_statement_mode: StatementAutoGenerateMode | None = None
    credit_application_order: Annotated[tuple[BillCreditType, ...], Field(max_length=2)] = ()
    days_before_bill_due: Days | None = None


class AccountPlan(Entity):
    """The time during which an account is on a plan: start inclusive, end exclusive."""

    account_id: Id
    start_date: Instant
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    plan_id: Id | None = None
    plan_group_id: Id | None = None
    end_date: Instant | None = None
    code: Code | None = None
    bill_epoch: Day | None = None
    contract_id: Id | None = None
    child_billing_mode: ChildBillingMode = ChildBillingMode.PARENT_BREAKDOWN


def billed_account_id(account_plan: AccountPlan, configuration: Configuration) -> str:
    """The account on whose bill the lines of a plan stand.

    It is the parent of the account that is on the plan, unless the plan bills children.
    """
    account = configuration.get(Account, account_plan.account_id).entity
    if account_plan.child_billing_mode is ChildBillingMode.CHILD:
        return account_plan.account_id
    return account.parent_account_id or account_plan.account_id


class CustomerLink(Entity):
    """A link to the page of one customer; it ends by itself, and when somebody revokes it."""

    account_id: Id
    name: Name
    dt_expiry: Instant
    allowed_origins: Annotated[tuple[Origin, ...], Field(max_length=20)] = ()
    revoked: Flag = False
