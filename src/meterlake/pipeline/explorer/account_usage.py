"""What one account has used on each day of a month, as the aggregations of its prices fold it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.catalog.plans import Plan, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.configuration.queries import DataExplorerAggregationFunction
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.scopes.plan_fields import plan_ids_of
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Month, Period, midnight, naive, zone
from meterlake.pipeline.explorer.explore import Stop, answer
from meterlake.pipeline.explorer.usage_questions import reduction_of, stored_fields
from meterlake.stages.usage.explore import ExplorerScope, Group, Question
from meterlake.stores import Organization
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

Document = dict[str, Any]

_DAY: Final = "day"
_ONE_DAY: Final = timedelta(days=1)
# What the days of one question can be folded by.
_FOLDED: Final = frozenset(each.value for each in DataExplorerAggregationFunction)


def read_account_usage(
    organization: Organization,
    account_id: str,
    month: Month | None = None,
    stop: Stop | None = None,
) -> Document:
    """The quantities of an account by aggregation, of a month and of each of its days.

    Days are those of the organization. Of the account's plans in that month, each priced
    aggregation of one field counts; usage of its children stands with them.

    Args:
        organization: The organization.
        account_id: Whose usage.
        month: Which month; the present one if None.
        stop: Ends it early.

    Raises:
        NotFound: There is no such account.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        reader.get(Account, account_id)
        configuration = StoredConfiguration(reader)
        tz = zone(configuration.single(OrganizationConfig).entity.timezone)
        today = organization.now().astimezone(tz).date()
        month = month or Month(today.year, today.month)
        period = month.period(tz)
        found = _priced(configuration, account_id, period)
        meters = {each.entity.meter_id: None for each in found}
        known = {id_: configuration.get(Meter, id_) for id_ in meters}
    scope = _Scope(account_id, period, list(_days(month, tz)), stop or Stop())
    folded = [_FoldedMeter(meter, found) for meter in known.values()]
    questions = [each.question(scope.by_day) for each in folded]
    # All meters at once: what a look at the lake costs is mostly its beginning.
    by_day = _rows(organization, questions, scope)
    in_all = _rows(organization, [replace(each, groups=()) for each in questions], scope)
    shown = [
        row
        for each in sorted(folded, key=lambda one: one.meter.entity.code)
        for row in each.documents(by_day[each.meter.id], in_all[each.meter.id], scope)
    ]
    return {
        "accountId": account_id,
        "month": str(month),
        "startDate": month.first,
        "endDate": month.after,
        "aggregations": shown,
    }


class _Scope:
    """Whose usage of which days is asked for."""

    def __init__(
        self, account_id: str, period: Period, days: list[tuple[date, datetime]], stop: Stop
    ) -> None:
        self.days = days
        self.stop = stop
        self.explored = ExplorerScope(period, 1 << 20, (account_id,))
        # A constant of the statement: which of the days' beginnings are not after a measurement.
        starts = ", ".join(f"TIMESTAMP '{naive(start)}'" for _, start in days)
        self.by_day = Group(_DAY, f"len(list_filter([{starts}], lambda start: start <= m.ts))")


def _days(month: Month, tz: tzinfo) -> Iterator[tuple[date, datetime]]:
    """The days of a month, and the instants at which they begin."""
    day = month.first
    while day < month.after:
        yield day, midnight(day, tz).astimezone(UTC)
        day += _ONE_DAY


def _priced(
    configuration: Configuration, account_id: str, period: Period
) -> list[Record[Aggregation]]:
    """The aggregations for which the plans of an account have prices in a time."""
    ids: dict[str, None] = {}
    for attached in configuration.where(AccountPlan, "account_id", account_id):
        if period.intersection(attached.entity.start_date, attached.entity.end_date) is None:
            continue
        for plan_id in plan_ids_of(attached.entity, configuration):
            plan = configuration.get(Plan, plan_id).entity
            prices = [
                *configuration.where(Pricing, "plan_id", plan_id),
                *configuration.where(Pricing, "plan_template_id", plan.plan_template_id),
            ]
            for each in prices:
                active = period.intersection(each.entity.start_date, each.entity.end_date)
                if active is not None and each.entity.aggregation_id is not None:
                    ids[each.entity.aggregation_id] = None
    return [
        found
        for id_ in ids
        if (found := configuration.get(Aggregation, id_)).entity.aggregation.value in _FOLDED
    ]


class _FoldedMeter:
    """A meter, and the aggregations that fold its fields."""

    def __init__(self, meter: Record[Meter], priced: list[Record[Aggregation]]) -> None:
        self.meter = meter
        self._fields = stored_fields(meter.entity)
        self._rollups = {
            each.id: reduction_of(self._fields[each.entity.target_field], each.entity.aggregation)
            for each in priced
            if each.entity.meter_id == meter.id
        }
        own = (each for each in priced if each.id in self._rollups)
        self._aggregations = sorted(own, key=lambda each: each.entity.code or each.entity.name)

    def question(self, group: Group) -> Question:
        """What is asked of the meter: each fold once, by days."""
        different = {each.key: each for each in self._rollups.values()}
        return Question(
            self.meter.id,
            self.meter.entity.code,
            tuple(self._fields.values()),
            groups=(group,),
            rollups=tuple(different.values()),
        )

    def documents(
        self, by_day: list[Document], in_all: list[Document], scope: _Scope
    ) -> Iterator[Document]:
        """The aggregations with their quantities, of all days and of each."""
        at = {row[_DAY]: row for row in by_day}
        meter = self.meter.entity
        for each in self._aggregations:
            key, entity = self._rollups[each.id].key, each.entity
            shown = {
                "aggregationId": each.id,
                "code": entity.code,
                "name": entity.name,
                "meterId": self.meter.id,
                "meterCode": meter.code,
                "meterName": meter.name,
                "unit": quantity_unit(entity, meter),
                "quantity": in_all[0].get(key) if in_all else None,
                "days": [
                    {"date": day, "quantity": row[key]}
                    for number, (day, _) in enumerate(scope.days, start=1)
                    if (row := at.get(number)) is not None and row[key] is not None
                ],
            }
            yield {name: value for name, value in shown.items() if value is not None}


def _rows(
    organization: Organization, questions: list[Question], scope: _Scope
) -> dict[str, list[Document]]:
    """The rows of each meter, by its id."""
    found: dict[str, list[Document]] = defaultdict(list)
    for row in answer(organization, questions, scope.explored, scope.stop).documents():
        found[row["meterId"]].append(row)
    return found
