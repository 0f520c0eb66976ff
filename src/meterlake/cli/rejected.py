"""`meterlake rejected`: rows that were not accepted: find them, mend them, give them in again."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.options import NO_OPTIONS, Limit, Options

if TYPE_CHECKING:
    from meterlake.stores.lake.rejected import RejectedFilter

COLUMNS: Final = ("id", "name=file", "row", "reason", "field", "meter", "uid", "detail", "status")
_PAGE: Final = 100
Text = Annotated[str | None, Parameter(show_default=False)]
Instant = Annotated[str | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class Which:
    """Which rejected rows are meant.

    Attributes:
        source: The name of the file, or the beginning of the source's identity.
        delivery: The id of the delivery or of the upload job.
        reason: Why they were rejected, such as UndefinedMeter.
        meter: The meter's code as it stands in the row.
        uid: The row's uid.
        since: Received at this instant or later, ISO 8601.
        until: Received before this instant.
    """

    source: Text = None
    delivery: Text = None
    reason: Text = None
    meter: Text = None
    uid: Text = None
    since: Instant = None
    until: Instant = None

    def filters(self, status: Literal["open", "requeued"] | None = "open") -> "RejectedFilter":
        """As the store knows them.

        Raises:
            Invalid: An instant is none.
        """
        from meterlake.stores.lake.rejected import RejectedFilter

        since, until = instant("since", self.since), instant("until", self.until)
        named = (self.source, self.delivery, self.reason, self.meter, self.uid)
        return RejectedFilter(*named, since=since, until=until, status=status)


NO_FILTERS: Final = Which()


def register(app: App) -> None:
    """Add the commands."""
    rejected = App(
        name="rejected", help="Rows that were not accepted: find, mend and give in again."
    )
    rejected.command(list_, name="list")
    rejected.command(show)
    rejected.command(export)
    rejected.command(requeue)
    app.command(rejected)


def instant(name: str, text: str | None) -> datetime | None:
    """An instant from the command line.

    Raises:
        Invalid: It is none.
    """
    from meterlake.model.errors import Invalid
    from meterlake.model.period import parse_instant

    if text is None:
        return None
    found = parse_instant(text)
    if found is None:
        raise Invalid(name, text, "an ISO 8601 instant such as 2026-10-01T00:00:00Z")
    return found


def list_(
    *,
    which: Which = NO_FILTERS,
    status: Literal["open", "requeued", "all"] = "open",
    limit: Limit = _PAGE,
    after: Text = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Show rejected rows, in the order of their sources and rows.

    Each row has an id, such as 3f61a9b20c44:17, that the other commands understand.

    Example: `meterlake rejected list --reason UndefinedMeter`

    Args:
        status: `requeued` are those that came in since by `rejected requeue`.
        limit: How many rows at most.
        after: Go on behind the row with this id.
    """
    from meterlake.pipeline.ingest.rejected_rows import check_named, list_rejected

    filters = which.filters(None if status == "all" else status)
    with options.looked_at() as (stores, organization):
        found = list_rejected(stores, organization.id, filters, limit, after)
        if not found:
            check_named(stores, organization.id, filters)
    options.output.rows([row.to_wire() for row in found], COLUMNS)
    if len(found) == limit:
        options.output.note(f"There may be more: --after {found[-1].place}")
    if not found:
        options.output.note("No rejected rows.")


def show(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show one rejected row: its text, what was wrong, where it came from, what became of it.

    Example: `meterlake rejected show 3f61a9b20c44:17`

    Args:
        id: The row's id, as `rejected list` shows it.
    """
    from meterlake.pipeline.ingest.rejected_rows import show_rejected

    with options.looked_at() as (stores, organization):
        found = show_rejected(stores, organization.id, id)
    if options.json:
        options.output.line(found)
        return
    history = found.pop("history")
    options.output.record(found)
    columns = ("at", "name=file", "row", "requeued", "edited", "reason", "detail")
    options.output.rows([_outcome(each) for each in history], columns, "What became of it")


def _outcome(each: dict[str, Any]) -> dict[str, Any]:
    return each if each["reason"] else each | {"reason": "came in"}


def export(file: Path, /, *, which: Which = NO_FILTERS, options: Options = NO_OPTIONS) -> None:
    """Write rejected rows to a file that can be edited and given to `rejected requeue --from`.

    NDJSON or CSV, by the name's end. `measurement`, or the columns of the measurement, is what
    may be edited; lines that are deleted stay rejected.

    Example: `meterlake rejected export mend.csv --reason InvalidNumber`

    Args:
        file: The file, ending in .ndjson, .jsonl or .csv; it is replaced if it exists.
    """
    from meterlake.pipeline.ingest.rejected_rows import check_named, every_rejected
    from meterlake.pipeline.rejected.rejected_files import write_rejected

    filters = which.filters()
    with options.open() as (stores, organization):
        rows = write_rejected(file, lambda: every_rejected(stores, organization.id, filters))
        if not rows:
            check_named(stores, organization.id, filters)
    if options.json:
        options.output.line({"file": str(file), "rows": rows})
    options.output.note(f"{rows:,} rows in {file}")


def requeue(
    *,
    from_: Annotated[Path | None, Parameter(name="--from", show_default=False)] = None,
    which: Which = NO_FILTERS,
    options: Options = NO_OPTIONS,
) -> None:
    """Give rejected rows in again: as they are, or as a file has them that somebody edited.

    Repeating it is safe: a row that came in is never given in again, nor counted twice when its
    file is delivered again. A row that is rejected again stays where it was, with its new text.

    Example: `meterlake rejected requeue --reason UndefinedMeter`

    Args:
        from_: An edited file of `rejected export`; without it all rows that are meant.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.ingest.rejected_rows import check_named
    from meterlake.pipeline.rejected import requeue as rejected
    from meterlake.pipeline.rejected.rejected_files import read_edits

    if from_ and which != NO_FILTERS:
        raise Invalid("--from", from_, "given alone: the file says which rows are meant")
    with options.open() as (stores, organization):
        if from_:
            done = rejected.requeue_edited(stores, organization.id, read_edits(from_))
        else:
            done = rejected.requeue(stores, organization.id, which.filters())
            if done == rejected.Requeue():
                check_named(stores, organization.id, which.filters())
    line = done.to_wire()
    if options.json:
        options.output.line(line)
        return
    options.output.note(
        f"{line['received']:,} requeued = {line['accepted']:,} accepted"
        f" + {line['repeats']:,} repeats + {line['rejected']:,} rejected again"
    )
    if line["settled"]:
        options.output.note(f"{line['settled']:,} rows had come in already")
    if line["unreadable"]:
        shown = ", ".join(line["unreadable"][:10])
        options.output.note(f"{len(line['unreadable']):,} rows must be edited first: {shown}")
