"""`meterlake receipts`: what became of sources, of jobs, and of single measurements."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.ingest.rejected import Instant, Text, instant
from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options

COLUMNS: Final = (
    *("!source", "name=file", "status", "?received", "accepted", "?repeats", "rejected", "?mended"),
    *("?reasons", "retractedBy=retracted by", "reason=failed for", "?receivedAt=received at"),
)
_SHOWN_DIGITS: Final = 12
_PAGE: Final = 50
SortName = Literal["read", "came", "file", "received", "accepted", "rejected"]
_SORTS: Final = {"read": "finishedAt", "came": "receivedAt", "file": "name"}


@Parameter(name="*")
@dataclass(frozen=True)
class Listed:
    """Which receipts are listed, and in which order.

    Attributes:
        name: The name of the file.
        status: `failed` are the unreadable ones.
        since: Only those that came at this instant or later, ISO 8601.
        until: Only those that came before this instant.
        sort: Order them by when they were read or came, by file, or by a number of rows.
        ascending: The oldest, or the smallest, first.
    """

    name: Text = None
    status: Annotated[Literal["done", "failed"] | None, Parameter(show_default=False)] = None
    since: Instant = None
    until: Instant = None
    sort: SortName = "read"
    ascending: bool = False


ALL: Final = Listed()


def register(app: App) -> None:
    """Add the commands."""
    receipts = App(
        name="receipts", help="Receipts: the outcome of files, jobs and single measurements."
    )
    receipts.command(list_, name="list")
    receipts.command(show)
    receipts.command(uid)
    app.command(receipts)


def list_(
    *,
    which: Listed = ALL,
    limit: Limit = _PAGE,
    options: Options = NO_OPTIONS,
) -> None:
    """Show the receipts of the last sources: received = accepted + repeats + rejected by reason.

    Example: `meterlake receipts list`

    Example: `meterlake receipts list --sort rejected`

    Args:
        limit: The largest number that you want to see.
    """
    from meterlake.pipeline.rejected.receipts import check_source, list_receipts
    from meterlake.stores.lake.receipts import ReceiptFilters

    filters = ReceiptFilters(
        which.name,
        which.status,
        instant("since", which.since),
        instant("until", which.until),
        by=_SORTS.get(which.sort, which.sort),
        ascending=which.ascending,
    )
    with options.open() as organization:
        found = list_receipts(organization, filters, limit)
        if not found and which.name is not None:
            check_source(organization, which.name)
    options.output.rows([_with_source(each) for each in found], COLUMNS, empty="No receipts.")


def show(source: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show every receipt of one source, or of one job, the newest first.

    Example: `meterlake receipts show 3f61a9b20c44`

    Args:
        source: The beginning of the source's identity, or the id of the delivery or the job.
    """
    from meterlake.pipeline.rejected.receipts import show_receipts

    with options.open() as organization:
        found = show_receipts(organization, source)
    for each in found:
        options.output.record(each)
        options.output.note("")


def uid(
    *uids: Annotated[str, Parameter(name="UID", required=True)], options: Options = NO_OPTIONS
) -> None:
    """Show the source that first brought a measurement, and the later rows that contradict it.

    Example: `meterlake receipts uid 9f0c4b1e`

    Args:
        uids: The uids.
    """
    from meterlake.pipeline.rejected.receipts import uid_receipts

    with options.open() as organization:
        found = uid_receipts(organization, uids)
    for each in found:
        options.output.record(each)
        options.output.note("")


def _with_source(receipt: dict[str, Any]) -> dict[str, Any]:
    marks = (f"{each['backfill']} ({each['measurements']:,})" for each in receipt["retracted"])
    source = receipt["identity"][:_SHOWN_DIGITS]
    return receipt | {"source": source, "retractedBy": ", ".join(marks) or None}
