"""Where exports go, and when they run."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, WithJsonSchema, model_validator

from meterlake.model.configuration.queries import (
    AccountIds,
    Aggregations,
    DimensionFilters,
    Groups,
    Label,
    MeterIds,
    TimePeriod,
)
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import Code, Flag, Id, Instant, Integer, LongText, Name, Text


class DataExportDestinationType(StrEnum):
    """Whose bucket it is."""

    S3 = "S3"
    GCS = "GCS"
    LOCAL = "LOCAL"  # of our own: a folder of the server


class PartitionOrder(StrEnum):
    """Whether the time or the type of data comes first in an object's name."""

    TYPE_FIRST = "TYPE_FIRST"
    TIME_FIRST = "TIME_FIRST"


class SourceType(StrEnum):
    """What is exported: measurements, or everything else."""

    USAGE = "USAGE"
    OPERATIONAL = "OPERATIONAL"


class ScheduleType(StrEnum):
    """The unit of a schedule's period."""

    HOUR = "HOUR"
    DAY = "DAY"
    MINUTE = "MINUTE"


class ExportFileFormat(StrEnum):
    """How rows are written."""

    CSV = "CSV"
    JSONL = "JSONL"
    PARQUET = "PARQUET"  # of our own


class OperationalDataType(StrEnum):
    """A kind of entity that is exported whole."""

    BILLS = "BILLS"
    COMMITMENTS = "COMMITMENTS"
    ACCOUNTS = "ACCOUNTS"
    BALANCES = "BALANCES"
    CONTRACTS = "CONTRACTS"
    ACCOUNT_PLANS = "ACCOUNT_PLANS"
    AGGREGATIONS = "AGGREGATIONS"
    PLANS = "PLANS"
    PRICING = "PRICING"
    PRICING_BANDS = "PRICING_BANDS"
    BILL_LINE_ITEMS = "BILL_LINE_ITEMS"
    METERS = "METERS"
    PRODUCTS = "PRODUCTS"
    COMPOUND_AGGREGATIONS = "COMPOUND_AGGREGATIONS"
    PLAN_GROUPS = "PLAN_GROUPS"
    PLAN_GROUP_LINKS = "PLAN_GROUP_LINKS"
    PLAN_TEMPLATES = "PLAN_TEMPLATES"
    BALANCE_TRANSACTIONS = "BALANCE_TRANSACTIONS"
    TRANSACTION_TYPES = "TRANSACTION_TYPES"
    CHARGES = "CHARGES"


# What only one variant has, by the wire's names; a rule refuses it in the others.
_OF_TYPE: Final = {
    DataExportDestinationType.S3: ("iamRoleArn",),
    DataExportDestinationType.GCS: (
        "projectNumber",
        "poolId",
        "providerId",
        "serviceAccountEmail",
    ),
    DataExportDestinationType.LOCAL: (),
}
_OF_SOURCE: Final = {
    SourceType.OPERATIONAL: ("operationalDataTypes", "focus"),
    SourceType.USAGE: (
        "timePeriod",
        "meterIds",
        "accountIds",
        "dimensionFilters",
        "aggregations",
        "groups",
    ),
}


def of_other_sources(source: SourceType) -> frozenset[str]:
    """What only exports of other sources say, by the wire's names."""
    return _of_others(source, _OF_SOURCE)


def of_other_types(type: DataExportDestinationType) -> frozenset[str]:
    """What only destinations of other types say, by the wire's names."""
    return _of_others(type, _OF_TYPE)


def _of_others(variant: Any, members: dict[Any, tuple[str, ...]]) -> frozenset[str]:
    # A document may have anything there; only texts can be looked up.
    if not isinstance(variant, str) or variant not in members:
        return frozenset()
    return frozenset(name for each, names in members.items() if each != variant for name in names)


def _without(document: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


_EMPTY: Final = (None, "")
_ROLE_ARN: Final = r"^arn:aws:iam::\d+:role/.*$"
RoleArn = Annotated[
    Label,
    Field(pattern=_ROLE_ARN),
    WithJsonSchema({"type": "string", "pattern": _ROLE_ARN, "minLength": 1, "maxLength": 5000}),
]


class ExportDestination(Entity):
    """A bucket of S3 (`iamRoleArn`) or of Google Cloud Storage (`projectNumber`, `poolId`, …).

    Of a `LOCAL` one, the bucket is a folder in the server's folder of exports.

    Attributes:
        derived_in_files: What follows from the other fields where a file leaves it out.
    """

    derived_in_files: ClassVar[tuple[str, ...]] = ("destinationType",)

    name: Name
    code: Code
    destination_type: DataExportDestinationType = Field(
        description="Follows from the other members where it is absent."
    )
    bucket_name: Annotated[Text, Field(min_length=3, max_length=63)]
    prefix: LongText | None = None
    partition_order: PartitionOrder = PartitionOrder.TIME_FIRST
    iam_role_arn: RoleArn | None = None
    project_number: Label | None = None
    pool_id: Label | None = None
    provider_id: Label | None = None
    service_account_email: LongText | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_variant(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        if document.get("destinationType") is None:
            for variant, names in _OF_TYPE.items():
                if names and document.get(names[0]) is not None:
                    document = {**document, "destinationType": variant.value}
                    break
        # What is empty is as good as absent.
        foreign = _of_others(document.get("destinationType"), _OF_TYPE)
        return _without(document, {name for name in foreign if document.get(name) in _EMPTY})


_FOCUS: Final = (
    "Whether the lines of bills are exported as a FOCUS cost and usage dataset, too; of our own."
)


class ExportSchedule(Entity):
    """Exports measurements (`USAGE`) or entities (`OPERATIONAL`) again and again, by the clock in UTC."""

    name: Label
    code: Code
    source_type: SourceType
    destination_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    schedule_type: ScheduleType | None = None
    period: Annotated[Integer, Field(ge=1, lt=2**31)] | None = None
    offset: Annotated[Integer, Field(ge=1, lt=2**31)] | None = None
    cron_expression: LongText | None = None
    enabled: Flag = Field(
        True,
        description="Whether it makes jobs; what it missed stays missed. As it was, where an update"
        " does not say.",
    )
    export_file_format: ExportFileFormat | None = None
    operational_data_types: Annotated[tuple[OperationalDataType, ...], Field(max_length=100)] = ()
    # No type of its own: the public SDK knows all types, and cannot read a schedule with another.
    focus: Flag = Field(False, description=_FOCUS)
    time_period: TimePeriod | None = None
    meter_ids: MeterIds = ()
    account_ids: AccountIds = ()
    dimension_filters: DimensionFilters = ()
    aggregations: Aggregations = ()
    groups: Groups = ()

    def to_wire(self) -> dict[str, Any]:
        """Its fields under their wire names, without those that only the other variant has."""
        return _without(super().to_wire(), of_other_sources(self.source_type))


class AdHocExport(Value):
    """An export that is asked for once: measurements of a time, or entities."""

    source_type: SourceType
    version: Integer | None = None
    destination_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    export_file_format: ExportFileFormat | None = None
    operational_data_types: Annotated[tuple[OperationalDataType, ...], Field(max_length=100)] = ()
    focus: Flag = Field(False, description=_FOCUS)
    start_date: Instant | None = None
    end_date: Instant | None = None
    meter_ids: MeterIds = ()
    account_ids: AccountIds = ()
    dimension_filters: DimensionFilters = ()
    aggregations: Aggregations = ()
    groups: Groups = ()
