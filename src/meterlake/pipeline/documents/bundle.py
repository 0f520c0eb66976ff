"""The documents of many bills as one file: one PDF after the other, or an archive of them."""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from importlib.util import find_spec
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from meterlake.model.bills.bill_name import bundle_file_name
from meterlake.model.bills.document import AppendixDetail, BundleFormat, DocumentFormat
from meterlake.model.errors import Invalid, NotAvailable, NotFound
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted
from meterlake.pipeline.documents.render import (
    EXTRA,
    RenderedDocument,
    RenderOptions,
    make_documents,
)
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.lists import BillFilters, bills_by_date
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.reader import Reader

# Who waits for an answer waits for a second or so for each document.
BILLS_MAX: Final = 200
# Archives say when a file was made: the same bills give the same bytes.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_ONE_DAY: Final = timedelta(days=1)
_READABLE: Final = 0o644 << 16
MEDIA_TYPES: Final = {BundleFormat.PDF: "application/pdf", BundleFormat.ZIP: "application/zip"}


def _tell_nobody(_: int) -> None:
    pass


def bills_of_documents(organization: Organization, month: Month) -> list[str]:
    """The ids of all bills of a month, by the code of the account, bill date and id.

    Raises:
        NotFound: It has none.
    """
    with organization.reading() as reader:
        found = read_month_bills(reader, str(month))
        names = by_id(reader, {each.account_id for each in found})
    if not found:
        raise NotFound("bills of", str(month), "; make them first")
    codes = {id_: each.code for id_, each in names.items()}
    found.sort(key=lambda each: (codes.get(each.account_id, ""), each.bill_date, each.id))
    return [each.id for each in found]


def check_count(ids: Sequence[str]) -> None:
    """Refuse so many bills that nobody waits for their documents.

    Raises:
        Invalid: There are too many.
    """
    if len(ids) > BILLS_MAX:
        rule = f"there may be at most {BILLS_MAX}; have more made as a job, with `…/bills/documents/jobs`"
        raise Invalid("billIds", counted(len(ids), "bill"), rule)


def bundle_name(reader: Reader, ids: Sequence[str], format: BundleFormat) -> str:
    """The name of a file of bills, which says of which months they are."""
    found = bills_by_date(reader, BillFilters(ids=tuple(ids)), len(ids))
    ends = (date.fromisoformat(each.content.body["endDate"]) for each in found)
    return bundle_file_name((each - _ONE_DAY for each in ends), format)


def make_bundle(
    organization: Organization,
    ids: Sequence[str],
    format: BundleFormat,
    detail: AppendixDetail = AppendixDetail.AUTO,
    options: RenderOptions | None = None,
    tell: Callable[[int], None] = _tell_nobody,
) -> RenderedDocument:
    """The PDFs of some bills, in their order, as one PDF or as an archive of files.

    Args:
        organization: The organization.
        ids: The bills; one that is named twice is there once.
        format: One PDF, or an archive.
        detail: How finely the appendices show usage.
        options: How documents are made; as the settings say if None.
        tell: Is told how many more are done.

    Raises:
        NotFound: One of the bills does not exist.
        NotAvailable: What makes PDFs, or joins them, is not installed.
        MeterlakeError: As `make_documents` does.
    """
    if format is BundleFormat.PDF and find_spec("pypdf") is None:
        raise NotAvailable("one PDF", f"what joins PDFs is not installed; install it: {EXTRA}")
    wanted = list(dict.fromkeys(ids))
    with organization.reading() as reader:
        name = bundle_name(reader, wanted, format)
    made = make_documents(organization, wanted, DocumentFormat.PDF, detail, options)
    write = _join if format is BundleFormat.PDF else _archive
    data = write(_counted(_named_apart(made), tell))
    return RenderedDocument(name, MEDIA_TYPES[format], data)


def _named_apart(documents: Iterable[RenderedDocument]) -> Iterator[RenderedDocument]:
    """Documents with names of their own, also several of one customer and month."""
    names = Counter[str]()
    for each in documents:
        names[each.name] += 1
        stem, _, ending = each.name.rpartition(".")
        apart = f"{stem}_{names[each.name]}.{ending}"
        yield each if names[each.name] == 1 else replace(each, name=apart)


def _counted(
    documents: Iterable[RenderedDocument], tell: Callable[[int], None]
) -> Iterator[RenderedDocument]:
    for each in documents:
        yield each
        tell(1)


# One document after the other is in memory beside the file.
def _join(documents: Iterable[RenderedDocument]) -> bytes:
    from pypdf import PdfWriter  # noqa: PLC0415 - of `meterlake[documents]`

    writer, data = PdfWriter(), io.BytesIO()
    for each in documents:
        writer.append(io.BytesIO(each.data), outline_item=each.name.removesuffix(".pdf"))
    writer.write(data)
    return data.getvalue()


def _archive(documents: Iterable[RenderedDocument]) -> bytes:
    data = io.BytesIO()
    with ZipFile(data, "w", ZIP_DEFLATED) as archive:
        for each in documents:
            entry = ZipInfo(each.name, _NO_TIME)
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, _READABLE
            archive.writestr(entry, each.data)
    return data.getvalue()
