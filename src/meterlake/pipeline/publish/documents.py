"""What analysts see of configuration and bills, as documents in the wire's shape."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Final, NamedTuple, Self

from meterlake.model.bills.late_usage import LateUsage
from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.values.entity import Configuration, Entity
from meterlake.model.values.money import ZERO
from meterlake.model.values.version import code_version
from meterlake.pipeline.billing.bill_documents import bill_document, line_documents
from meterlake.pipeline.billing.late_usage.findings import read_unnoted
from meterlake.stages.export.documents import Document, entity_documents
from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.tables import (
    BILL,
    BILL_LINE,
    LATE_USAGE,
    LATE_USAGE_LINE,
    POSTING,
    UNBILLED_USAGE,
    Table,
)
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.credits.balances import amounts
from meterlake.stores.state.billing.credits.ledger import all_postings
from meterlake.stores.state.billing.late_usage.lists import all_late_usage
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.postings import amounts_spent
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.versions import versions

ColumnRequest = Callable[[str], bool]


class Findings(NamedTuple):
    """Reads what State does not have, or not all of it, and what is found out without writing.

    Attributes:
        late: Late usage that no run has looked at.
        unbilled: Usage that no bill charges for.
    """

    late: Callable[[], Sequence[LateUsage]]
    unbilled: Callable[[], Sequence[Document]]

    @classmethod
    def of(cls, organization: Organization) -> Self:
        """Those of an organization, which are found out when they are read."""
        return cls(partial(read_unnoted, organization), partial(_read_unbilled, organization))

    def read(self) -> "Findings":
        """The same, found out now."""
        late, unbilled = self.late(), self.unbilled()
        return Findings(lambda: late, lambda: unbilled)


def _read_unbilled(organization: Organization) -> Sequence[Document]:
    # It calculates bills, for which it loads Polars; most queries ask for none.
    from meterlake.pipeline.billing.unbilled import read_unbilled  # noqa: PLC0415

    return read_unbilled(organization)


def documents_of(
    reader: Reader,
    configuration: Configuration,
    table_names: Mapping[str, str],
    at: datetime,
    findings: Findings,
    needs: ColumnRequest = lambda _: True,
) -> Iterator[tuple[Table, Sequence[Document]]]:
    """Every table that is filled from State, with its documents.

    Args:
        reader: The organization's entities.
        configuration: Those of now.
        table_names: The table of every meter by the meter's id.
        at: The moment of which balances show what they hold.
        findings: Reads what State does not have.
        needs: Whether a table or macro is needed, by its name; what is not is left empty.
    """
    for each in ENTITY_TABLES:
        needed = needs(each.current.name)
        found = _current(each.kind, configuration, table_names) if needed else []
        add = _WITH_AMOUNTS.get(each.kind)
        yield each.current, found if add is None else add(reader, found, at)
        past = needs(each.history.name) or needs(each.macro)
        yield each.history, list(versions(reader, each.kind)) if past else ()
    stored = bills.of_period(reader) if needs(BILL.name) else []
    yield BILL, [bill_document(bill) for bill in stored]
    yield BILL_LINE, [line for bill in stored for line in line_documents(bill)]
    yield POSTING, list(_postings(reader)) if needs(POSTING.name) else ()
    yield UNBILLED_USAGE, findings.unbilled() if needs(UNBILLED_USAGE.name) else ()
    is_late = needs(LATE_USAGE.name) or needs(LATE_USAGE_LINE.name)
    known = [*all_late_usage(reader), *findings.late()] if is_late else []
    late = [each.to_wire() for each in known]
    yield LATE_USAGE, late
    yield (
        LATE_USAGE_LINE,
        [{"lateUsageId": each["id"], **line} for each in late for line in each["lineItems"]],
    )


def _balances(reader: Reader, found: Sequence[Document], at: datetime) -> list[Document]:
    """Balances with what they hold."""
    held: dict[str, Decimal] = {}
    for ids in chunks_of(each["id"] for each in found):
        held |= amounts(reader, ids, at)
    return [{**each, "amount": held.get(each["id"], ZERO)} for each in found]


def _commitments(reader: Reader, found: Sequence[Document], at: datetime) -> list[Document]:
    """Commitments with what is spent of them."""
    del at
    spent = amounts_spent(reader, [each["id"] for each in found])
    return [{**each, "amountSpent": spent.get(each["id"], ZERO)} for each in found]


_WITH_AMOUNTS: Final[dict[type[Entity], Callable[..., list[Document]]]] = {
    Balance: _balances,
    Commitment: _commitments,
}


def _postings(reader: Reader) -> Iterator[Document]:
    with closing(all_postings(reader)) as found:
        for each in found:
            yield {
                "sequence": each.sequence,
                "id": each.id,
                "kind": each.kind.value,
                "fromAccount": str(each.from_account),
                "toAccount": str(each.to_account),
                "amount": each.amount,
                "currency": each.currency,
                "change": each.change,
                "sourceId": each.source_id,
                "billId": each.bill_id,
                "billVersion": each.bill_version,
                "reverses": each.reverses,
                "applied": each.applied,
                "created": each.created,
                "createdBy": each.author,
            }


def about_document(organization: Organization, timezone: str, snapshot: int) -> Document:
    """What a file, or the live lake, is of whom and from when."""
    return {
        "organization": organization.name,
        "organizationCode": organization.code,
        "timezone": timezone,
        "publishedAt": organization.now(),
        "snapshot": snapshot,
        "meterlake": code_version(),
    }


def _current(
    kind: type[Entity], configuration: Configuration, table_names: Mapping[str, str]
) -> list[Document]:
    added: dict[type[Entity], Callable[[Document], Document]] = {
        Meter: lambda meter: {"tableName": table_names[meter["id"]]},
        Plan: lambda plan: _from_template(plan, configuration),
    }
    documents = entity_documents(kind, configuration)
    add = added.get(kind)
    return documents if add is None else [{**each, **add(each)} for each in documents]


def _from_template(plan: Document, configuration: Configuration) -> Document:
    template = configuration.get(PlanTemplate, plan["planTemplateId"]).entity
    charge = plan.get("standingCharge")
    return {
        "template": template.to_wire(),
        "effectiveStandingCharge": template.standing_charge if charge is None else charge,
    }
