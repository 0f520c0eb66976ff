"""What the statement of a bill says: its lines, and the usage behind them as the bill pins it."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.statements import StatementContent, StatementLine, StatementOrder
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.customers.accounts import Account
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import zone
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.billing.line_usage import OF_USAGE, LineUsage, LineUsageReader
from meterlake.pipeline.statements.usage_rows import AccountNames, NearbyUsage, UsageRows
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill
from meterlake.stores.state.core import account_names

# Lines that charge for the same usage differ in these alone: one of them has the usage.
_SHARING: Final = {LineItemType.USAGE, LineItemType.OVERAGE_USAGE}
_SAME: Final = (
    *("aggregationId", "compoundAggregationId", "pricingId", "contractId", "childAccountId"),
    *("servicePeriodStartDate", "servicePeriodEndDate"),
)


class BillLine(NamedTuple):
    """A line as it is stored and as it is shown, and what it charges for."""

    line: LineContent
    shown: Mapping[str, Any]
    usages: Sequence[LineUsage]

    @property
    def sharing(self) -> tuple[Any, ...]:
        """What lines have in common that charge for the same usage."""
        body = self.line.body
        type_ = LineItemType(body["lineItemType"])
        kind = LineItemType.USAGE if type_ in _SHARING else type_
        segment = tuple(sorted(body.get("segment", {}).items()))
        plan_id = self.line.pins.get("accountPlanId")
        return (kind, plan_id, segment, *(body.get(name) for name in _SAME))


@dataclass(frozen=True, slots=True)
class ReadBill:
    """A bill as it was read for its statement.

    Attributes:
        bill: The bill.
        definition: How its statement is made up; None of the default layout.
        account_name: The name of its account.
        lines: Its lines.
    """

    bill: StoredBill
    definition: Record[StatementDefinition] | None
    account_name: str | None
    lines: Sequence[BillLine]

    @property
    def calculated(self) -> datetime:
        """When the bill was calculated."""
        return self.bill.calculated or self.bill.created

    def says_the_same(self, other: StoredBill) -> bool:
        """Whether the bill has the same lines still, whatever people did with it."""
        return _lines_of(self.bill) == _lines_of(other)


def _lines_of(bill: StoredBill) -> list[tuple[str, Any]]:
    return [(line.key, line.body) for line in bill.content.lines]


def read_bill(reader: Reader, bill_id: str, *, usages: bool = True) -> ReadBill:
    """A bill, and how its statement is made up.

    Args:
        reader: The State.
        bill_id: The bill.
        usages: Whether its lines say what they charge for.

    Raises:
        NotFound: There is no such bill.
    """
    bill = bills.get(reader, bill_id)
    shown = bill_response(bill, None)
    accounts = account_names.by_id(reader, [bill.content.key.account_id])
    name = next((each.name for each in accounts.values()), None)
    usage_reader = LineUsageReader(reader, bill)
    lines = [
        BillLine(
            line,
            document,
            (list(usage_reader.read(line)) if line.body["lineItemType"] in OF_USAGE else ())
            if usages
            else (),
        )
        for line, document in zip(bill.content.lines, shown["lineItems"], strict=True)
    ]
    return ReadBill(bill, find_definition(reader, bill.content.key.account_id), name, lines)


def find_definition(reader: Reader, account_id: str) -> Record[StatementDefinition] | None:
    """The definition of an account's statements: its own, else that of the organization."""
    account = reader.get(Account, account_id)
    chosen = account.entity.statement_definition_id
    if chosen is None:
        [config] = reader.all(OrganizationConfig)
        chosen = config.entity.default_statement_definition_id
    return None if chosen is None else reader.get(StatementDefinition, chosen)


class ContentOrder(NamedTuple):
    """What the statement of a bill is to show.

    Attributes:
        read: The bill.
        order: Which meters' usage is shown.
        layout: How the usage is made up, whatever the definition says.
    """

    read: ReadBill
    order: StatementOrder
    layout: StatementDefinition | None = None

    @property
    def lines(self) -> list[BillLine]:
        """The lines that are there."""
        return [each for each in self.read.lines if _is_shown(each, self.order.meter_ids)]


def read_content(
    organization: Organization,
    read: ReadBill,
    order: StatementOrder,
    check: Callable[[], None] = lambda: None,
) -> StatementContent:
    """All that the statement of one bill shows; see `read_contents`."""
    [found] = read_contents(organization, [ContentOrder(read, order)], check)
    return found


def read_contents(
    organization: Organization,
    wanted: Sequence[ContentOrder],
    check: Callable[[], None] = lambda: None,
) -> list[StatementContent]:
    """All that the statements of some bills show. What they share in the lake is read once.

    Args:
        organization: The organization.
        wanted: The statements.
        check: Called between two lines; raises if nobody wants the statements any more.

    Raises:
        Invalid: One has too many rows.
        Unavailable: The lake failed.
    """
    names = AccountNames(
        partial(_names, organization, account_names.by_id),
        partial(_names, organization, account_names.by_code),
    )
    found = []
    with organization.lake.reader() as connection:
        usages = (usage for each in wanted for line in each.lines for usage in line.usages)
        nearby = NearbyUsage(connection, usages)
        for each in wanted:
            content = _content_without_lines(each)
            tz = zone(each.read.bill.content.body["timezone"])
            rows = UsageRows(connection, each.layout or content.layout, tz, names, nearby)
            found.append(replace(content, lines=_read_lines(each.lines, rows, check)))
    return found


def _content_without_lines(wanted: ContentOrder) -> StatementContent:
    read, meter_ids = wanted.read, wanted.order.meter_ids
    return StatementContent(
        bill=bill_response(read.bill, None, lines=False),
        account_name=read.account_name,
        definition=read.definition,
        meter_ids=meter_ids,
        lines=(),
        omitted=[each.shown for each in read.lines if not _is_shown(each, meter_ids)],
    )


def _names(organization: Organization, find: Any, values: Any) -> Any:
    with organization.reading() as reader:
        return find(reader, values)


def _is_shown(line: BillLine, meter_ids: Sequence[str]) -> bool:
    """Whether a line is there: lines of usage are that of meters that nobody chose are not."""
    if not meter_ids or not line.usages:
        return True
    return any(each.meter_id in meter_ids for each in line.usages)


def _read_lines(
    lines: Sequence[BillLine], rows: UsageRows, check: Callable[[], None]
) -> list[StatementLine]:
    """The lines with their usage; where several charge for the same, the first one has it."""
    groups: dict[tuple[Any, ...], list[BillLine]] = defaultdict(list)
    for each in lines:
        if each.usages:
            groups[each.sharing].append(each)
    found = []
    for each in lines:
        check()
        if not each.usages:
            found.append(StatementLine(each.shown))
            continue
        first, *_ = group = groups[each.sharing]
        if first is not each:
            found.append(StatementLine(each.shown, usage_of=first.shown["id"]))
            continue
        if "aggregationId" in each.line.body:
            with exact():
                quantity = sum((Decimal(each.line.body["quantity"]) for each in group), ZERO)
        else:
            quantity = None
        usage = [rows.read(one, quantity) for one in each.usages]
        found.append(StatementLine(each.shown, usage))
    return found
