"""`meterlake rejected`: rows that were not accepted: find them, mend them, give them in again."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, UPLOAD, Limit, Options
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.pipeline.rejected.requeue import Decided, RowChoice
    from meterlake.stores import Organization
    from meterlake.stores.lake.rejected import RejectedFilter, RejectedOrder, Status

COLUMNS: Final = (
    *("!id", "!reason", "?meter", "?field", "detail", "?status"),
    *("?name=file", "?row", "?uid"),
)
_PAGE: Final = 100
Text = Annotated[str | None, Parameter(show_default=False)]
Instant = Annotated[str | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class Which:
    """Which rejected rows are meant.

    Attributes:
        source: Only rows of this source: the name of its file, or the beginning of its identity.
        delivery: Only rows of this delivery: its id, or that of the upload job.
        reason: Only rows with this reason, such as UndefinedMeter.
        meter: Only rows of this meter: its code as you see it in the row.
        uid: Only the rows with this uid.
        since: Only those that came at this instant or later, ISO 8601.
        until: Only those that came before this instant.
    """

    source: Text = None
    delivery: Text = None
    reason: Text = None
    meter: Text = None
    uid: Text = None
    since: Instant = None
    until: Instant = None

    def filters(self, status: "Status | None" = "open") -> "RejectedFilter":
        """As the store knows them.

        Raises:
            Invalid: An instant is none.
        """
        from meterlake.stores.lake.rejected import RejectedFilter

        since, until = instant("since", self.since), instant("until", self.until)
        named = (self.source, self.delivery, self.reason, self.meter, self.uid)
        return RejectedFilter(*named, since=since, until=until, status=status)


NO_FILTERS: Final = Which()
Ids = Annotated[str, Parameter(name="ID")]
Because = Annotated[str | None, Parameter(show_default=False)]
StatusName = Literal["open", "dismissed", "withdrawn", "requeued", "all"]
SortName = Literal["received", "reason", "file", "meter"]
_SORTS: Final = {"received": "receivedAt", "reason": "reason", "file": "name", "meter": "meter"}


@Parameter(name="*")
@dataclass(frozen=True)
class Sorting:
    """The order of rejected rows.

    Attributes:
        sort: Order the rows by when they came, by reason, by file or by meter.
        descending: The other way round.
    """

    sort: Annotated[SortName | None, Parameter(show_default=False)] = None
    descending: bool = False

    def order(self) -> "RejectedOrder":
        """As the store knows it."""
        from meterlake.stores.lake.rejected import RejectedOrder

        return RejectedOrder(_SORTS[self.sort] if self.sort else None, not self.descending)


NO_SORTING: Final = Sorting()


def register(app: App) -> None:
    """Add the commands."""
    rejected = App(name="rejected", help="Rejected rows: find, edit, requeue or dismiss them.")
    rejected.command(list_, name="list")
    rejected.command(show)
    rejected.command(export)
    rejected.command(requeue)
    rejected.command(dismiss)
    rejected.command(reopen)
    app.command(rejected)


def instant(name: str, text: str | None) -> datetime | None:
    """An instant from the command line.

    Raises:
        Invalid: It is none.
    """
    from meterlake.model.errors import Invalid
    from meterlake.model.values.period import parse_instant

    if text is None:
        return None
    found = parse_instant(text)
    if found is None:
        raise Invalid(name, text, "it must be an ISO 8601 instant such as 2026-10-01T00:00:00Z")
    return found


def list_(
    *,
    which: Which = NO_FILTERS,
    status: StatusName = "open",
    sorted_by: Sorting = NO_SORTING,
    limit: Limit = _PAGE,
    after: Text = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Show rejected rows, in the order of their sources and rows.

    Each row has an id, such as 3f61a9b20c44:17, which you give to the other commands.

    Example: `meterlake rejected list --reason UndefinedMeter`

    Example: `meterlake rejected list --sort received --descending`

    Args:
        status: `requeued` are those that came in since by `rejected requeue`, `withdrawn` those of
            a file that a backfill withdrew, `dismissed` those that you gave up.
        limit: The largest number of rows that you want to see.
        after: Begin after the row with this id; of a sorted list, after what the list before named.
    """
    from meterlake.pipeline.ingest.rejected_rows import (
        check_named,
        count_set_aside,
        list_rejected,
        mark_of,
    )

    filters = which.filters(None if status == "all" else status)
    order = sorted_by.order()
    aside: dict[str, int] = {}
    with options.looked_at() as organization:
        found = list_rejected(organization, filters, limit, after, order)
        if not found:
            check_named(organization, filters)
            aside = count_set_aside(organization, filters)
    columns = [each for each in COLUMNS if status == "all" or each != "?status"]
    empty = "No rejected rows." if status == "all" else f"No {status} rows."
    options.output.rows([row.to_wire() for row in found], columns, empty=empty)
    if len(found) == limit:
        place = shlex.quote(mark_of(found[-1], order)) if order.by else found[-1].place
        options.output.note(f"There may be more: --after {place}")
    for name, rows in aside.items():
        options.output.note(f"{rows:,} {name}: --status {name}")


def show(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show one rejected row: its text, its error, its origin, and the outcome of each try.

    Example: `meterlake rejected show 3f61a9b20c44:17`

    Args:
        id: The row's id, as `rejected list` shows it.
    """
    from meterlake.pipeline.access.named_people import with_names
    from meterlake.pipeline.ingest.rejected_rows import show_rejected

    with options.looked_at() as organization:
        found = show_rejected(organization, id)
        if not options.json and "decisions" in found:
            named = with_names(organization, found["decisions"], "author")
            found["decisions"] = named
        if not options.json:
            found["history"] = with_names(organization, found["history"], "author")
    if options.json:
        options.output.line(found)
        return
    history, decisions = found.pop("history"), found.pop("decisions", [])
    options.output.record(found)
    columns = ("at", "?name=file", "?row", "requeued", "?edited", "?author", "reason", "detail")
    options.output.rows(
        [(each if each["reason"] else each | {"reason": "came in"}) for each in history],
        columns,
        "What became of it",
    )
    if decisions:
        title = "Who gave it up, and took it up again"
        options.output.rows(decisions, ("at", "action", "author", "because"), title)


def export(
    file: Path,
    /,
    *,
    which: Which = NO_FILTERS,
    status: StatusName = "open",
    options: Options = NO_OPTIONS,
) -> None:
    """Write rejected rows to a file that you edit and give to `rejected requeue --from`.

    It is NDJSON or CSV, by the end of its name. You may edit `measurement`, or the columns of the
    measurement. If you delete a line, its row stays rejected.

    Example: `meterlake rejected export mend.csv --reason InvalidNumber`

    Args:
        file: The file, ending in .ndjson, .jsonl or .csv; the command replaces an existing one.
        status: You can requeue withdrawn and dismissed rows only from such a file, or by id.
    """
    from meterlake.pipeline.ingest.rejected_rows import check_named, every_rejected
    from meterlake.pipeline.rejected.rejected_files import write_rejected

    filters = which.filters(None if status == "all" else status)
    with options.open() as organization:
        rows = write_rejected(file, lambda: every_rejected(organization, filters))
        if not rows:
            check_named(organization, filters)
    if options.json:
        options.output.line({"file": str(file), "rows": rows})
    options.output.note(f"{counted(rows, 'row')} in {file}")


def requeue(
    *ids: Ids,
    from_: Annotated[Path | None, Parameter(name="--from", show_default=False)] = None,
    which: Which = NO_FILTERS,
    options: Options = NO_OPTIONS,
) -> None:
    """Ingest rejected rows again: as they are, or as you edited them in a file.

    Without ids, a file or a filter you requeue all open rows. Withdrawn and dismissed rows come in
    only if you name them: by id, or in the file.

    You can repeat it safely: a row that came in never comes in again, nor counts twice if you
    deliver its file again. A row that meterlake rejects again stays where it was, with its new
    text.

    Example: `meterlake rejected requeue --reason UndefinedMeter`

    Example: `meterlake rejected requeue 3f61a9b20c44:17`

    Args:
        ids: The ids of rows, as `rejected list` shows them.
        from_: An edited file of `rejected export`.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.rejected.rejected_files import Edit, read_edits
    from meterlake.pipeline.rejected.requeue import requeue, requeue_edited

    if sum([from_ is not None, bool(ids), which != NO_FILTERS]) > 1:
        given = str(from_ or " ".join(ids))
        raise Invalid(
            "--from" if from_ else "ID", given, "give it alone: it says which rows are meant"
        )
    edits = read_edits(from_) if from_ else (Edit(id_, None, "ID") for id_ in dict.fromkeys(ids))
    notes: list[str] = []
    with options.open() as organization:
        author = options.permitted(organization, UPLOAD)
        if from_ or ids:
            done = requeue_edited(organization, edits, author)
        else:
            done = requeue(organization, which.filters(), author)
            if not done.receipts:
                notes = _explain_nothing(organization, which)
    line = done.to_wire()
    if options.json:
        options.output.line(line)
        return
    options.output.note(
        f"{line['received']:,} requeued = {line['accepted']:,} accepted"
        f" + {counted(line['repeats'], 'repeat')} + {line['rejected']:,} rejected again"
    )
    if line["settled"]:
        notes.append(f"{counted(line['settled'], 'row')} had come in already")
    if line["unreadable"]:
        shown = ", ".join(line["unreadable"][:10])
        rows = counted(len(line["unreadable"]), "row")
        notes.append(f"{rows} must be edited first: {shown}")
    for note in notes:
        options.output.note(note)


def _explain_nothing(organization: "Organization", which: Which) -> list[str]:
    """Why no row was given in again.

    Raises:
        NotFound, Invalid: A filter names what is nowhere.
    """
    from meterlake.pipeline.ingest.rejected_rows import check_named, count_set_aside

    check_named(organization, which.filters())
    return [
        f"{rows:,} {name}: only those that you name by id are requeued"
        f" (`meterlake rejected list --status {name}`)"
        for name, rows in count_set_aside(organization, which.filters()).items()
    ]


def dismiss(
    *ids: Ids, because: Because = None, which: Which = NO_FILTERS, options: Options = NO_OPTIONS
) -> None:
    """Give open rejected rows up: they wait for no repair any more.

    `status`, `bill review` and the report no longer count them. The row keeps your name, the
    instant and the reason: see `rejected show`. With `rejected reopen` you take it back.

    Example: `meterlake rejected dismiss --source trial.csv --because "a file of a trial"`

    Args:
        ids: The ids of rows, as `rejected list` shows them; or you give a filter.
        because: Your reason. You must give it, and the rows keep it.
    """
    from meterlake.model.errors import Required
    from meterlake.pipeline.rejected.requeue import dismiss

    if because is None or not because.strip():
        rule = 'say why nobody waits for the rows, such as --because "a file of a trial"'
        raise Required("--because", None, rule)

    def decide(organization: "Organization", choice: "RowChoice", author: str) -> "Decided":
        return dismiss(organization, choice, because, author)

    _decide(decide, ids, which, options, ("dismissed", "open"))


def reopen(*ids: Ids, which: Which = NO_FILTERS, options: Options = NO_OPTIONS) -> None:
    """Take dismissed rows up again: they wait for a repair as before.

    Example: `meterlake rejected reopen --source trial.csv`

    Args:
        ids: The ids of rows; or you give a filter.
    """
    from meterlake.pipeline.rejected.requeue import reopen

    _decide(reopen, ids, which, options, ("reopened", "dismissed"))


def _decide(
    verb: "Callable[[Organization, RowChoice, str], Decided]",
    ids: tuple[str, ...],
    which: Which,
    options: Options,
    words: tuple[str, str],
) -> None:
    """Decide about rows, and say how many became what, and how many were not what they had to be."""
    from meterlake.pipeline.rejected.requeue import RowChoice

    became, needed = words
    choice = RowChoice(ids, which.filters())
    with options.open() as organization:
        author = options.permitted(organization, UPLOAD)
        done = verb(organization, choice, author)
        if not done.rows + done.settled:
            from meterlake.pipeline.ingest.rejected_rows import check_named

            check_named(organization, which.filters())
    if options.json:
        options.output.line(done.to_wire())
        return
    options.output.note(f"{counted(done.rows, 'row')} {became}")
    if done.settled:
        rows = counted(done.settled, "row was", "rows were")
        options.output.note(f"{rows} not {needed}, and left alone")
