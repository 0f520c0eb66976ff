"""The verb `explain_number`: one number of an answer about usage, down to its measurements."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from typing import Any, Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.configuration.queries import UsageExplainRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.recurring_period import parse_day
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.fields import is_storable
from meterlake.model.values.period import Period, aware, format_instant, naive, parse_instant, zone
from meterlake.model.values.problems import read
from meterlake.model.values.sql import identifier
from meterlake.pipeline.explorer.explore import (
    GUARD_COMMENT,
    Found,
    Snapshot,
    Stop,
    aggregate_meters,
    asked,
    reading,
    tables_of,
    with_values,
)
from meterlake.pipeline.explorer.usage_questions import stored_fields
from meterlake.stages.usage.explore import (
    ExplorerScope,
    Group,
    Question,
    Unit,
    aggregate_query,
    conditions,
    count_query,
    source_of,
)
from meterlake.stores import Organization
from meterlake.stores.lake.measurements.rows import MeasurementQuery
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page, opaque_token, refuse_token, token_text
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# The longest that a unit of time is, by clocks that are put on and back, too.
_LONGEST: Final = {
    Unit.HOUR.value: timedelta(hours=1),
    Unit.DAY.value: timedelta(days=2),
    Unit.WEEK.value: timedelta(days=8),
    Unit.MONTH.value: timedelta(days=32),
    Unit.QUARTER.value: timedelta(days=94),
}
# What a row of an answer has beside its groups and its number.
_NAMES: Final = frozenset({"meterId", "meter", "account"})


@dataclass(frozen=True, slots=True)
class NumberExplanation:
    """A number of an answer and what it comes from.

    Attributes:
        row: The row of the answer that has it.
        sql: The statement that gives this row alone.
        count: How many measurements it is made of.
        measurements: Some of them, the oldest first, with file and row.
        token: Leads to the next ones.
    """

    row: Mapping[str, Any]
    sql: str
    count: int
    measurements: Sequence[Mapping[str, Any]]
    token: str | None

    def to_wire(self) -> dict[str, Any]:
        """The answer of the API."""
        answer = {"row": self.row, "sql": self.sql, "measurementCount": self.count}
        return {**answer, "data": self.measurements, "nextToken": self.token}


def explain_number(
    organization: Organization, request: UsageExplainRequest, page: Page, stop: Stop | None = None
) -> NumberExplanation:
    """Explain the number of one group of a question.

    Args:
        organization: The organization.
        request: The question with one aggregation, and the group.
        page: Which of the measurements.
        stop: Ends it early.

    Raises:
        Invalid: The question does not fit the meters, has no aggregation or several, or the group is
            none of the question's.
        NotFound: The group has no measurements.
        Unavailable: The disk or the memory failed.
    """
    if len(request.aggregations) != 1:
        rule = "it must be one: the number that is to be explained"
        raise Invalid("aggregations", len(request.aggregations), rule)
    [question], scope = asked(organization, request)
    question, scope = _one_group(question, replace(scope, rows=1), request.group)
    stop = stop or Stop()
    for wide in (False, True):
        with reading(organization.explored_lake, stop) as snapshot:
            rollups = aggregate_meters(snapshot, [question], scope, wide=wide)
            if rollups is not None:
                return _explained(organization, snapshot, rollups, scope, page)
    raise AssertionError("wide sums do not overflow")


def number_request(
    organization: Organization,
    what: tuple[str, str, str],
    days: tuple[str, str],
    account: str | None,
    where: Mapping[str, str | None],
) -> UsageExplainRequest:
    """The number that somebody names by codes and days.

    Args:
        organization: The organization.
        what: The codes of the meter and of its field, and the function.
        days: The first day and the day after the last one, by the organization's clocks.
        account: The code of an account; of all if None.
        where: Values of fields by code; None is no value.

    Raises:
        Invalid: A day is none, or the function is none.
        NotFound: There is no such meter, field or account.
    """
    code, name, function = what
    first, after = (parse_day(each, day) for each, day in zip(("from", "to"), days, strict=True))
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        tz = zone(configuration.single(OrganizationConfig).entity.timezone)
        meter, owner = reader.find(Meter, code), account and reader.find(Account, account)
    if meter is None:
        raise NotFound("meter", code)
    if account and not owner:
        raise NotFound("account", account)
    fields = {each.code: each for each in meter.entity.all_fields}
    for wanted in (name, *where):
        if wanted not in fields:
            raise NotFound(f"field of meter {code}", wanted)
    kind = "MEASURE" if fields[name].category.numeric else "DIMENSION"
    group = {stored_fields(meter.entity)[each].key: value for each, value in where.items()}
    groups = [{"groupType": "DIMENSION", "meterId": meter.id, "fieldCode": each} for each in where]
    return read(
        UsageExplainRequest,
        {
            "startDate": format_instant(datetime.combine(first, time.min, tz)),
            "endDate": format_instant(datetime.combine(after, time.min, tz)),
            "accountIds": [owner.id] if owner else [],
            "aggregations": [
                {"meterId": meter.id, "fieldCode": name, "fieldType": kind, "function": function}
            ],
            "groups": groups,
            "group": group,
        },
    )


def _explained(
    organization: Organization,
    snapshot: Snapshot,
    rollups: list[Found],
    scope: ExplorerScope,
    page: Page,
) -> NumberExplanation:
    if not rollups or not rollups[0][1]:
        raise NotFound("usage", "of this group", "; choose a row of the answer to the question")
    [(question, _)] = rollups
    present = snapshot.columns(question)
    [[count]] = snapshot.rows(*count_query(question, present, scope)) or []
    found = snapshot.measurements(_measurements(question, present, scope, page), page.size + 1)
    rows = found[: page.size]
    token = None
    if len(found) > page.size:
        token = opaque_token(json.dumps([rows[-1]["ts"].isoformat(), rows[-1]["uid"]]))
    with organization.reading() as reader:
        names = account_names.by_id(reader, {each["account_id"] for each in rows})
    codes = {each.id: each.code for each in names.values()}
    [row] = tables_of(organization, rollups)[0].documents()
    sql = GUARD_COMMENT + with_values(*aggregate_query(question, present, scope))
    return NumberExplanation(row, sql, count, [_to_wire(each, codes) for each in rows], token)


def _to_wire(row: Mapping[str, Any], codes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "file": row["file"],
        "source": row["source"],
        "row": row["row"],
        "part": row["part"],
        "uid": row["uid"],
        "account": codes.get(row["account_id"]),
        "ts": aware(row["ts"]),
        "receivedAt": aware(row["received_at"]),
        "value": row["value"],
    }


def _measurements(
    question: Question, present: set[str], scope: ExplorerScope, page: Page
) -> MeasurementQuery:
    where, parameters = conditions(question, scope)
    [rollup] = question.rollups
    column = rollup.field.column
    query = MeasurementQuery(
        source=f"({source_of(question, present, scope)})",
        where=where,
        parameters=parameters,
        value=f"m.{identifier(column)}" if column in present else "NULL",
        more=", m.account_id",
    )
    if page.token is None:
        return query
    ts, uid = _place(page.token)
    return query.restrict("(m.ts, m.uid) > ($after_ts, $after_uid)", after_ts=ts, after_uid=uid)


def _place(token: str) -> tuple[datetime, str]:
    """The measurement that a token names."""
    try:
        match json.loads(token_text(token)):
            case [str(ts), str(uid)] if is_storable(uid):
                return naive(aware(datetime.fromisoformat(ts))), uid
    except (ValueError, RecursionError):
        pass
    raise refuse_token(token)


# --- The group ------------------------------------------------------------------------------------


def _one_group(
    question: Question, scope: ExplorerScope, members: Mapping[str, Any]
) -> tuple[Question, ExplorerScope]:
    """A question that only the measurements of one group answer, and their time.

    Args:
        question: With one fold.
        scope: All that the question is about.
        members: A row of the answer, or its groups alone.
    """
    known = {*_NAMES, *question.keys}
    for name in members:
        if name not in known:
            rule = f"it must be a member of the answer's rows: {', '.join(sorted(known))}"
            raise Invalid("group", name, rule)
    chosen: list[tuple[Group, Any]] = []
    for group in question.groups:
        if group.key not in members:
            raise Invalid("group", None, f"it must have {group.key}, by which the question groups")
        value = members[group.key]
        if value is not None and not isinstance(value, str):
            raise Invalid(f"group.{group.key}", value, "it must be a text as the answer has it")
        if longest := _LONGEST.get(group.key.upper()) if group.newest_first else None:
            value = _instant(group.key, value)
            scope = replace(scope, period=_within(scope.period, value, longest))
        chosen.append((group, value))
    return replace(question, chosen=tuple(chosen)), scope


def _instant(name: str, text: str | None) -> datetime:
    found = None if text is None else parse_instant(text)
    if found is None:
        raise Invalid(f"group.{name}", text, "it must be an instant as the answer has it")
    return naive(found)


def _within(period: Period | None, start: datetime, longest: timedelta) -> Period:
    """The part of a time that the lake has to look at for a group; a short one where it has none."""
    assert period is not None
    first = max(period.start, aware(start))
    try:
        end = min(period.end, aware(start) + longest)
    except OverflowError:
        end = period.end
    return Period(first, max(end, first))
