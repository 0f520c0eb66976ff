"""A bill, calculated again from what it pins, with every number that its total follows from."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.bills.bill import Bill, LineItemType
from meterlake.model.bills.explanation import ROWS_SHOWN, BillExplanation, ExplainedNumber
from meterlake.model.bills.verification import BillDifference
from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.errors import Conflict, Invalid, Unavailable
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.money import plain
from meterlake.model.values.period import Period, zone
from meterlake.model.values.version import calculation_digest
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.calculation.account_bills import BillCalculation
from meterlake.pipeline.billing.calculation.recalculation import make_again, read_again
from meterlake.pipeline.billing.explanation.measured import MeasuredQuantities
from meterlake.pipeline.billing.measured_files import check_measured_files, months_of
from meterlake.pipeline.billing.run import content_of
from meterlake.stages.bill.bills import DraftedBill
from meterlake.stages.bill.explain.bill import explain_total, step_of
from meterlake.stages.bill.explain.context import CompoundFields, ExplainedBill
from meterlake.stages.bill.verification import BillTexts, LineTexts, compare_bills
from meterlake.stages.usage.compound import AccountFields, OwnFields, read_compound
from meterlake.stores import Organization
from meterlake.stores.lake.quantity_runs import snapshot_is_kept
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import BillColumns
from meterlake.stores.state.billing.bills.bills import with_memos
from meterlake.stores.state.billing.bills.versions import BillVersion, get_version
from meterlake.stores.state.billing.calculations.pins import CalculationPins, read_calculations
from meterlake.stores.state.billing.memos.memos import KEY_PREFIX, MemoLine, line_id
from meterlake.stores.state.billing.stored_bills import LineContent

_LISTED: Final = 20


class NamedLine(NamedTuple):
    """A line with its number on the bill, from 1."""

    number: int
    id: str
    line: LineContent

    @property
    def names(self) -> Iterator[str]:
        """What people may call it."""
        body = self.line.body
        yield from (self.id, str(self.number), self.line.key)
        yield from (body["lineItemType"], body["description"])
        yield f"{body['lineItemType']} {body['description']}"

    def __str__(self) -> str:
        body = self.line.body
        return f"{self.number} ({body['lineItemType']} {body['description']})"


def name_lines(bill_id: str, lines: Sequence[LineContent]) -> list[NamedLine]:
    """The lines of a bill with what they are called."""
    return [
        NamedLine(number, line_id(bill_id, each.key), each)
        for number, each in enumerate(lines, start=1)
    ]


def find_line(lines: Sequence[NamedLine], text: str) -> NamedLine:
    """The line that a text means.

    Raises:
        Invalid: It means none, or several; the rule lists the lines.
    """
    name = text.strip().casefold()
    for level in range(len(list(lines[0].names)) if lines else 0):
        found = [each for each in lines if list(each.names)[level].casefold() == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise Invalid("line", text, f"it must be one of the lines {_list(found)}")
    raise Invalid(
        "line",
        text,
        f"it must be one of the lines {_list(lines)}"
        if lines
        else "the bill has no lines; leave it out",
    )


def _list(lines: Sequence[NamedLine]) -> str:
    shown = ", ".join(map(str, lines[:_LISTED]))
    more = len(lines) - _LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown


# What lines that people put on bills say of why.
_REASONS: Final = (
    *("referencedBillId", "referencedLineItemId"),
    *("reasonId", "creditReasonId", "debitReasonId"),
)


@dataclass(frozen=True, slots=True)
class ExplanationRequest:
    """What is to be explained.

    Attributes:
        line: The line, by id, number or name; the whole bill if None.
        version: Of the bill; the newest if None.
        rows: How many measurements are shown of each quantity.
        newest: Whether they are the newest ones; the oldest if not.
        days: Whether each quantity is shown by the days of the bill's time zone, too.
    """

    bill_id: str
    line: str | None = None
    version: int | None = None
    rows: int = ROWS_SHOWN
    newest: bool = False
    days: bool = False


class _PinnedVersion(NamedTuple):
    """A version of a bill, as far as it says which calculation made it."""

    account_id: str
    ledger_at: int


class OpenExplanation(NamedTuple):
    """An explanation while the lake is open."""

    explanation: BillExplanation
    quantities: MeasuredQuantities
    line: NamedLine | None

    def stream(self) -> Iterator[dict[str, Any]]:
        """All measurements of the quantities of the line, one quantity after the other."""
        for number in self.explanation.root.walk():
            if number.source is not None:
                yield from self.quantities.stream(number.source)


def explain_bill(organization: Organization, request: ExplanationRequest) -> BillExplanation:
    """Explain a bill, or one line of it.

    Raises:
        NotFound: There is no such bill, or it never had that version.
        Invalid: It has no such line.
        Conflict: It cannot be calculated again: what it was made from is gone.
        Unavailable: A store failed.
    """
    with open_explanation(organization, request) as found:
        return found.explanation


def explain_as_wire(organization: Organization, request: ExplanationRequest) -> dict[str, Any]:
    """The same as the API answers.

    Raises:
        NotFound: There is no such bill, or it never had that version.
        Invalid: It has no such line.
        Conflict: It cannot be calculated again: what it was made from is gone.
        Unavailable: A store failed.
    """
    return explain_bill(organization, request).to_wire()


@contextmanager
def open_explanation(
    organization: Organization, request: ExplanationRequest
) -> Iterator[OpenExplanation]:
    """The same, for who reads all measurements.

    Raises:
        NotFound: There is no such bill, or it never had that version.
        Invalid: It has no such line.
        Conflict: It cannot be calculated again: what it was made from is gone.
        Unavailable: A store failed.
    """
    version, pins = _read_version(organization, request)
    explaining = _Explaining(organization, request, version, pins)
    with explaining.name_lost_files():
        calculation, bill, drafted, explained = explaining.calculate()
        with organization.lake.reader() as connection:
            quantities = MeasuredQuantities(
                connection,
                calculation,
                drafted,
                request.rows,
                newest=request.newest,
                days=zone(explaining.timezone) if request.days else None,
            )
            root = explaining.explain(explained).map(quantities.attach)
            differences = [each.to_wire() for each in explaining.differences(bill)]
            found = BillExplanation(explaining.head(explained), root, differences)
            yield OpenExplanation(found, quantities, explaining.line)


def _read_version(
    organization: Organization, request: ExplanationRequest
) -> tuple[BillVersion, CalculationPins]:
    with organization.reading() as reader:
        number = request.version
        if number is None:
            number = bills.get(reader, request.bill_id).version
        version = get_version(reader, request.bill_id, number)
        id_ = version.calculation_id
        pins = {} if id_ is None else read_calculations(reader, [id_])
    if id_ is None or id_ not in pins:
        text = "an older version of meterlake made it, which does not say from what"
        raise Conflict(f"bill {request.bill_id!r} cannot be explained: {text}; make it again")
    with organization.lake.reader() as connection:
        if not snapshot_is_kept(connection, pins[id_].snapshot):
            text = f"snapshot {pins[id_].snapshot} of the lake is not kept any more"
            name = f"version {version.version} of bill {request.bill_id!r}"
            raise Conflict(
                f"{name} cannot be explained: {text};"
                " make the bill again, and explain its new version"
            )
    return replace(version, version=number), pins[id_]


class _Explaining:
    """A version of a bill that is explained."""

    def __init__(
        self,
        organization: Organization,
        request: ExplanationRequest,
        version: BillVersion,
        pins: CalculationPins,
    ) -> None:
        self.organization = organization
        self.request = request
        self.version = version
        self.pins = pins
        self.lines = name_lines(request.bill_id, version.content.lines)
        self.line = None if request.line is None else find_line(self.lines, request.line)

    def calculate(self) -> tuple[BillCalculation, Bill, DraftedBill, ExplainedBill]:
        """Make the bill once more, with what it is made from.

        Raises:
            Conflict: The account cannot be billed, or its calculation does not make the bill.
        """
        key = self.version.content.key
        reading = read_again(self.organization, self.pins, {key.account_id})
        calculation = reading.calculate(0)
        drafts = calculation.maker.drafts = {}
        pinned = _PinnedVersion(key.account_id, self.version.ledger_at)
        identity, refused = identity_of(key), ""
        for each in make_again(self.organization, calculation, [pinned]):
            for found in each.made:
                refused = "; ".join(failure.reason for failure in found.refused)
                for bill in found.made:
                    if isinstance(bill, Bill) and identity_of(content_of(bill).key) == identity:
                        fields = find_fields(calculation, reading.usage.account_fields)
                        own = "currencyConversions" in bill.pins.overrides
                        drafted = drafts[identity]
                        explained = ExplainedBill(drafted, fields, is_own_rate=own)
                        return calculation, bill, drafted, explained
        reason = refused or "its calculation does not make it"
        raise Conflict(
            f"bill {self.request.bill_id!r} cannot be explained: {reason};"
            " mend that, and make the bill again"
        )

    def explain(self, explained: ExplainedBill) -> ExplainedNumber:
        """The tree, with the ids of the lines."""
        memos = [
            _memo(each, explained.currency)
            for each in self.lines
            if each.line.key.startswith(KEY_PREFIX)
        ]
        keys = None if self.line is None else {self.line.line.key}
        root = explain_total(explained, memos, keys)
        ids = {each.line.key: each.id for each in self.lines}
        with_id: list[ExplainedNumber] = []
        for each in root.operands:
            key = each.facts["lineKey"]
            with_id.append(replace(each, facts={"id": ids.get(key), **each.facts}))
        lines = tuple(with_id)
        return replace(root, operands=lines)

    @property
    def timezone(self) -> str:
        """The time zone that the bill was made in."""
        return str(self.version.content.body["timezone"])

    def head(self, explained: ExplainedBill) -> dict[str, Any]:
        """What the bill says of itself, and what it was made from."""
        content, pins = self.version.content, self.pins
        shown = ("accountCode", "startDate", "endDate", "timezone", "billFrequencyInterval")
        return {
            "id": self.request.bill_id,
            "version": self.version.version,
            "accountId": content.key.account_id,
            **{name: content.body[name] for name in shown if name in content.body},
            "billDate": content.key.bill_date.isoformat(),
            "billingFrequency": content.key.frequency,
            "currency": content.currency,
            "currencyPlaces": explained.places,
            "total": plain(content.total),
            "line": None if self.line is None else self.line.id,
            "pins": {
                "snapshot": pins.snapshot,
                "transaction": pins.at,
                "ledgerTransaction": self.version.ledger_at,
                "code": pins.code,
                "isSameCode": pins.digest == calculation_digest(),
            },
        }

    def differences(self, bill: Bill) -> Iterator[BillDifference]:
        """What is stored and does not come out."""
        content = self.version.content
        own = [each for each in content.lines if each.key.startswith(KEY_PREFIX)]
        memos = [MemoLine(each.key, each.body) for each in own]
        calculated = BillColumns(with_memos(content_of(bill), memos))
        id_, shown = self.request.bill_id, calculated.shown
        head = (shown["period"], shown["currency"], shown["total"], shown["body"])
        lines = [LineTexts(key, body, "{}") for key, body in calculated.lines]
        stored = [LineTexts(each.key, _text(each.body), "{}") for each in content.lines]
        before = (content.period, content.currency, str(content.total), _text(content.body))
        yield from compare_bills(
            BillTexts(id_, *before, "{}", stored),
            BillTexts(id_, *head, "{}", lines),
            is_same_code=False,
        )

    @contextmanager
    def name_lost_files(self) -> Iterator[None]:
        """Say which files of measurements are gone, if that is why they cannot be read.

        Raises:
            Conflict: Some are.
        """
        try:
            yield
        except (duckdb.Error, Unavailable):
            key = self.version.content.key
            interval = int(self.version.content.body.get("billFrequencyInterval", key.interval))
            months = months_of([(key.bill_date, key.frequency, interval)])
            source = self.organization, self.pins.snapshot
            lost = [
                f"{each.name} is {'gone' if each.stored is None else 'not what it was'}"
                for each in check_measured_files(*source, months, set())
            ]
            if not lost:
                raise
            name = f"bill {self.request.bill_id!r}"
            raise Conflict(
                f"{name} cannot be explained: {', '.join(lost)};"
                " put them back from a backup, or make the bill again"
            ) from None


def _text(value: Any) -> str:
    return wire.dumps(value).decode()


def _memo(named: NamedLine, currency: str) -> ExplainedNumber:
    """A line that was put on the bill, by people or for late usage: its amount is what it says."""
    body = named.line.body
    kind = LineItemType(body["lineItemType"])
    facts = {
        "number": named.number,
        "lineKey": named.line.key,
        "type": kind.value,
        "description": body["description"],
        "step": step_of(kind),
        "entered": "as a line of its own, which every calculation keeps",
        **{name: body[name] for name in _REASONS if name in body},
    }
    return ExplainedNumber(
        name=f"{kind} {body['description']}",
        value=Decimal(body["convertedSubtotal"]),
        unit=currency,
        key=f"line {named.line.key}",
        facts=facts,
    )


def find_fields(calculation: BillCalculation, account_fields: AccountFields) -> CompoundFields:
    """What finds the custom fields of an account in a period that a formula names."""
    terms, left_out = calculation.terms, calculation.usage.left_out

    def fields(record: Record[CompoundAggregation], group: tuple[str, Period]) -> Mapping[str, Any]:
        compound = read_compound(record, terms.configuration, left_out)
        if isinstance(compound, str):
            return {}
        owners = terms.usage_owners
        return OwnFields(terms.configuration, account_fields, compound, owners=owners)(group)

    return fields
