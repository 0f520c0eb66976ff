"""What an organization has exactly once or keeps as a list of its own: settings, currencies, custom fields.

What a custom field of an entity is worth: its own value, else the organization's.

Lists that an organization keeps for itself and picks from: reasons, types, grouping keys.
"""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field, model_validator
from pydantic.alias_generators import to_snake
from pydantic_core import PydanticCustomError

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.email_template import LetterSubject, LetterText
from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import (
    CustomValue,
    Day,
    Days,
    Flag,
    Id,
    Ident,
    Integer,
    Name,
    NonNegative,
    Ordinal,
    Positive,
    Text,
)
from meterlake.model.values.money import ZERO, RoundingMode, plain


class BillCreditType(StrEnum):
    """A kind of credit; in a list, the order is the order of drawing down."""

    PREPAYMENT = "PREPAYMENT"
    BALANCE = "BALANCE"


class InvoiceDate(StrEnum):
    """Which day a bill's external invoice date is."""

    FIRST_DAY_OF_NEXT_PERIOD = "FIRST_DAY_OF_NEXT_PERIOD"
    LAST_DAY_OF_ARREARS = "LAST_DAY_OF_ARREARS"


class StatementAutoGenerateMode(StrEnum):
    """Which statements are made when a bill is approved or locked."""

    NONE = "NONE"
    JSON = "JSON"
    JSON_AND_CSV = "JSON_AND_CSV"


class LateUsagePolicy(StrEnum):
    """What scheduled billing does about usage that comes after the bill of its period."""

    RECALCULATE = "RECALCULATE"
    CARRY_FORWARD = "CARRY_FORWARD"
    REPORT = "REPORT"


class TimePeriodUnit(StrEnum):
    """The unit of the grace period before a bill approves itself."""

    MINUTES = "MINUTES"
    HOURS = "HOURS"
    DAYS = "DAYS"


CurrencyCode = Annotated[Text, Field(min_length=1, max_length=80)]

# Hours between two scheduled runs of billing; 0 is never, and one a day has an hour of its own.
BILL_INTERVALS: Final = tuple(map(Decimal, ("0", "0.25", "0.5", *"123468", "12", "24")))
ONCE_A_DAY: Final = Decimal(24)


def _bill_interval(hours: Decimal) -> Decimal:
    if hours not in BILL_INTERVALS:
        known = ", ".join(map(plain, BILL_INTERVALS))
        raise PydanticCustomError("rule", "{rule}", {"rule": f"it must be one of {known}"})
    return hours


def _each_once(kinds: tuple[BillCreditType, ...]) -> tuple[BillCreditType, ...]:
    if len(set(kinds)) < len(kinds):
        raise PydanticCustomError(
            "rule", "{rule}", {"rule": "it must be a list that names each kind once"}
        )
    return kinds


BillInterval = Annotated[NonNegative, AfterValidator(_bill_interval)]
CreditApplicationOrder = Annotated[tuple[BillCreditType, ...], AfterValidator(_each_once)]


class CurrencyConversion(Value):
    """How many units of the billing currency one unit of a pricing currency is."""

    from_: CurrencyCode = Field(alias="from")
    to: CurrencyCode
    multiplier: Positive = Field(
        description="The contract lets it out; without it nothing converts."
    )


class FileRhythm(StrEnum):
    """How often an expected file comes."""

    DAY = "DAY"
    MONTH = "MONTH"


class ExpectedFile(Value):
    """A file that comes for each day, or for each month, by some hours after it is over."""

    name: Annotated[Text, Field(min_length=1, max_length=80)]
    pattern: Annotated[Text, Field(min_length=1, max_length=200)]
    every: FileRhythm = FileRhythm.DAY
    hours: Annotated[Integer, Field(ge=0, le=744)] = 24
    since: Day

    def name_of(self, day: date) -> str:
        """The pattern of the name of the file of a day, or of the month that begins on it."""
        return self.pattern.replace("{month}", f"{day:%Y-%m}").replace("{date}", day.isoformat())


class OrganizationConfig(Entity):
    """Settings of an organization that its bills depend on; every organization has exactly one."""

    required_in_requests: ClassVar[tuple[str, ...]] = (
        "currency",
        "dayEpoch",
        "monthEpoch",
        "timezone",
        "weekEpoch",
        "yearEpoch",
    )

    timezone: Annotated[Text, Field(min_length=1, max_length=80)] = "UTC"
    year_epoch: Day = date(2022, 1, 1)
    month_epoch: Day = date(2022, 1, 1)
    week_epoch: Day = date(2022, 1, 4)
    day_epoch: Day = date(2022, 1, 1)
    currency: CurrencyCode = "USD"
    days_before_bill_due: Days
    currency_conversions: tuple[CurrencyConversion, ...] = ()
    scheduled_bill_interval: BillInterval = ZERO
    scheduled_bill_offset: Annotated[Integer, Field(ge=0, le=23)] | None = None
    standing_charge_bill_in_advance: Flag = False
    commitment_fee_bill_in_advance: Flag = False
    minimum_spend_bill_in_advance: Flag = False
    auto_approve_bills_grace_period: Annotated[Integer, Field(gt=0)] | None = None
    auto_approve_bills_grace_period_unit: TimePeriodUnit | None = None
    external_invoice_date: InvoiceDate = InvoiceDate.FIRST_DAY_OF_NEXT_PERIOD
    suppressed_empty_bills: Flag = False
    consolidate_bills: Flag = False
    default_statement_definition_id: Id | None = None
    auto_generate_statement_mode: StatementAutoGenerateMode = StatementAutoGenerateMode.NONE
    credit_application_order: CreditApplicationOrder = ()
    allow_negative_balances: Flag = False
    allow_overlapping_plans: Flag = False
    bill_prefix: Text | None = None
    sequence_start_number: Annotated[Ordinal, Field(le=10**15)] | None = None
    late_usage: LateUsagePolicy = LateUsagePolicy.REPORT
    two_person_approval: Flag = False
    bill_letter_subject: LetterSubject | None = None
    bill_letter_text: LetterText | None = None
    review_unpriced_usage: Flag = True
    review_missing_bills: Flag = True
    review_total_percent: NonNegative = Decimal(50)
    review_total_periods: Annotated[Integer, Field(ge=1, le=36)] = 6
    review_rejected_rows: Annotated[Integer, Field(ge=0)] = 0
    review_files: tuple[Annotated[Text, Field(min_length=1, max_length=200)], ...] = ()
    expected_files: Annotated[tuple[ExpectedFile, ...], Field(max_length=100)] = ()


# The settings that decide when periods begin and end.
PERIOD_SETTINGS: Final = ("timezone", "year_epoch", "month_epoch", "week_epoch", "day_epoch")


class BillConfig(Entity):
    """The day up to which bills are closed; every organization has exactly one."""

    bill_lock_date: Annotated[
        Day | None,
        Field(
            description="Bills whose last day is on or before it can be neither changed nor made again."
        ),
    ] = None


class Currency(Entity):
    """A currency, real or invented, and the rounding of amounts in it."""

    name: Name
    code: Ident | None = None
    archived: Flag = False
    max_decimal_places: Annotated[Integer, Field(ge=0, le=5)] = 2
    rounding_mode: RoundingMode = RoundingMode.HALF_UP


OrganizationFieldMap = Annotated[
    dict[Annotated[Text, Field(min_length=1, max_length=200)], CustomValue], Field(max_length=25)
]


# What comes back in requests from answers, and is no kind of entity.
_ENVELOPE: Final = frozenset(
    {"id", "version", "orgId", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"}
)


class CustomFields(Entity):
    """The custom fields that each kind of entity may carry, with their default values.

    Other kinds carry fields of their own alone: what an organization says of them is refused.
    """

    organization: OrganizationFieldMap = Field(default_factory=dict)
    account: OrganizationFieldMap = Field(default_factory=dict)
    account_plan: OrganizationFieldMap = Field(default_factory=dict)
    aggregation: OrganizationFieldMap = Field(default_factory=dict)
    compound_aggregation: OrganizationFieldMap = Field(default_factory=dict)
    contract: OrganizationFieldMap = Field(default_factory=dict)
    meter: OrganizationFieldMap = Field(default_factory=dict)
    plan: OrganizationFieldMap = Field(default_factory=dict)
    plan_template: OrganizationFieldMap = Field(default_factory=dict)
    product: OrganizationFieldMap = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _only_its_kinds(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        kinds = {field.alias or name: name for name, field in cls.model_fields.items()}
        for member in document:
            if member not in {*kinds, *kinds.values(), *_ENVELOPE}:
                rule = f"it must be one of {', '.join(kinds)}; other kinds have no fields of the organization"
                context = {"member": member, "rule": rule}
                raise PydanticCustomError("unknown_member", "{rule}", context)
        return document


def custom_value(
    name: str, entity: "Entity | None", defaults: "CustomFields", *, in_compound: bool = False
) -> str | Decimal | None:
    """The value of a custom field.

    Args:
        name: The field.
        entity: Who carries it; None for a field of the organization itself.
        defaults: The organization's custom fields.
        in_compound: Whether a compound aggregation asks: to it a meter's field always has the
            organization's value, as its quantities may come from several meters.

    Returns:
        None if there is no such field.
    """
    if entity is None:
        return defaults.organization.get(name)
    own: dict[str, str | Decimal] = getattr(entity, "custom_fields", {})
    if name in own and not (in_compound and isinstance(entity, Meter)):
        return own[name]
    # Kinds without a level of the organization have what they carry, and nothing else.
    of_kind: dict[str, str | Decimal] = getattr(defaults, to_snake(type(entity).__name__), {})
    return of_kind.get(name)


class PicklistItem(Entity):
    """One item of a list; an archived one stays where it is used, and is not picked any more."""

    name: Name
    code: Ident | None = None
    archived: Flag = False


class CreditReason(PicklistItem):
    """The reason why a person added a credit line to a bill."""


class DebitReason(PicklistItem):
    """The reason why a person added a debit line to a bill."""


class TransactionType(PicklistItem):
    """A kind of money that comes into a balance, or leaves it."""


class BillGroupingKey(PicklistItem):
    """A key that puts the charges of several contracts on one bill; an exclusive key has one user."""

    exclusive: Flag


def refuse_two_rates(conversions: Iterable[CurrencyConversion]) -> None:
    """Refuse rates of which a pair of currencies has two.

    Raises:
        Invalid: There are such, or a currency has a rate to itself.
    """
    seen = set()
    for index, conversion in enumerate(conversions):
        pair = (conversion.from_, conversion.to)
        if pair in seen or conversion.from_ == conversion.to:
            text = f"{conversion.from_} to {conversion.to}"
            raise Invalid(
                f"currencyConversions[{index}]",
                text,
                "the pair has a rate already; leave one of them out",
            )
        seen.add(pair)
