"""Answers about bill jobs."""

from enum import StrEnum

from meterlake.model.bills.jobs import BillJobBillingFrequency, BillJobType
from meterlake.model.configuration.organization import CurrencyConversion
from meterlake.model.values.entity import Value
from meterlake.model.values.envelope import Envelope
from meterlake.model.values.fields import Day, Id, Integer, Text


class BillJobStatus(StrEnum):
    """Where a bill job stands; one that failed is CANCELLED and has an `error`."""

    PENDING = "PENDING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"


class BillJobFailure(Value):
    """An account that a job could not bill."""

    account: Text
    reason: Text


class BillJobResponse(Envelope):
    """The job of bills: what was asked for, how far it is, and which bills it made."""

    last_date_in_billing_period: Day | None = None
    billing_frequency: BillJobBillingFrequency | None = None
    bill_frequency_interval: Integer | None = None
    bill_date: Day | None = None
    external_invoice_date: Day | None = None
    due_date: Day | None = None
    account_ids: tuple[Id, ...] | None = None
    bill_ids: tuple[Id, ...] | None = None
    target_currency: Text | None = None
    currency_conversions: tuple[CurrencyConversion, ...] | None = None
    timezone: Text | None = None
    year_epoch: Day | None = None
    month_epoch: Day | None = None
    week_epoch: Day | None = None
    day_epoch: Day | None = None
    status: BillJobStatus | None = None
    total: Integer | None = None
    pending: Integer | None = None
    type: BillJobType | None = None
    error: Text | None = None
    failures: tuple[BillJobFailure, ...] | None = None
    failure_count: Integer | None = None
    message: Text | None = None
