"""Answers about accounts, what they are on, and their balances."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.api.responses.envelope import response_of
from meterlake.model.customers.balances import EntityType
from meterlake.model.values.entity import Value
from meterlake.model.values.envelope import Envelope
from meterlake.model.values.fields import Id, Instant, Number, Text


class EndDatedEntities(Value):
    """Ids of entities by kind."""

    contract: Annotated[tuple[Id, ...], Field(alias="CONTRACT")] = ()
    accountplan: Annotated[tuple[Id, ...], Field(alias="ACCOUNTPLAN")] = ()
    prepayment: Annotated[tuple[Id, ...], Field(alias="PREPAYMENT")] = ()
    pricings: Annotated[tuple[Id, ...], Field(alias="PRICINGS")] = ()
    counter_pricings: Annotated[tuple[Id, ...], Field(alias="COUNTER_PRICINGS")] = ()


class EndDateBillingEntitiesResponse(Value):
    """What was ended and what could not be."""

    status_message: Text | None = None
    updated_entities: EndDatedEntities | None = None
    failed_entities: EndDatedEntities | None = None


class ReplaceAccountPlanResponse(Value):
    """The account plan that ended and the one that began."""

    original_account_plan: Annotated[dict[str, Any], response_of("AccountPlanResponse")]
    new_account_plan: Annotated[dict[str, Any], response_of("AccountPlanResponse")]


class BalanceTransactionResponse(Envelope):
    """One movement of a balance."""

    description: Text | None = None
    amount: Number | None = None
    paid: Number | None = None
    currency_paid: Text | None = None
    entity_type: EntityType | None = None
    entity_id: Id | None = None
    transaction_type_id: Id | None = None
    applied_date: Instant | None = None
    transaction_date: Instant | None = None


class BalanceTransactionsSummary(Value):
    """What went in and out of a balance."""

    total_credit_amount: Number | None = None
    total_debit_amount: Number | None = None
    initial_credit_amount: Number | None = None
    expired_balance_amount: Number | None = None
    rollover_consumed: Number | None = None
    balance_consumed: Number | None = None
