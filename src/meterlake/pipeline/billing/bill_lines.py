"""Lines of bills of the API: listed and looked up, and what they were made from as a file."""

from typing import Final

from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.pipeline.billing.bill_documents import line_response
from meterlake.pipeline.billing.line_usage import line_usage
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.explorer.answers import FileFormat, keep_file
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills import lists as bill_lists
from meterlake.stores.state.billing.bills.lists import LineFilters, StoredLine
from meterlake.stores.state.billing.memos.lines import line_id
from meterlake.stores.state.core.pages import Page

_KIND: Final = "line item"


def list_lines(organization: Organization, filters: LineFilters, page: Page) -> Document:
    """One page of lines: those of the newest bill first, each bill's in their order."""
    with organization.reading() as reader:
        found, token = bill_lists.list_lines(reader, filters, page)
        return envelope([line_response(*each) for each in found], token)


def list_lines_of_bill(organization: Organization, bill_id: str, page: Page) -> Document:
    """One page of the lines of a bill, in their order.

    Raises:
        NotFound: There is no such bill.
    """
    with organization.reading() as reader:
        bills.get(reader, bill_id)
    return list_lines(organization, LineFilters(bill_id=bill_id), page)


def get_line(organization: Organization, bill_id: str, id: str) -> Document:
    """One line of a bill.

    Raises:
        NotFound: There is no such bill, or it has no such line.
    """
    with organization.reading() as reader:
        return line_response(*find_line(reader, bill_id, id))


def find_line(reader: Reader, bill_id: str, id: str) -> StoredLine:
    """A line of a bill by its id.

    Raises:
        NotFound: There is no such bill, or it has no such line.
    """
    bill = bills.get(reader, bill_id)
    for number, line in enumerate(bill.content.lines, start=1):
        if line_id(bill_id, line.key) == id:
            return StoredLine(bill, line, number)
    raise NotFound(_KIND, id)


def usage_file(organization: Organization, bill_id: str, id: str) -> Download:
    """A file with a line and the measurements that it charges for, as its bill pins them.

    Raises:
        NotFound: There is no such bill, or it has no such line.
        Unavailable: The store failed.
    """
    with organization.reading() as reader:
        found = find_line(reader, bill_id, id)
    usage = line_usage(organization, found.bill, found.line)
    data = wire.dumps({"lineItem": line_response(*found), **usage})
    return keep_file(organization, f"usage-{id}", data, FileFormat.JSON)
