"""`meterlake backfill`: correct what is stored: withdraw, replace, derive and aggregate again."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from cyclopts import App, Parameter

from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.options import (
    NO_FAN_OUT_OPTIONS,
    NO_OPTIONS,
    FanOutOptions,
    Limit,
    Options,
)

if TYPE_CHECKING:
    from meterlake.model.work.backfill import Backfill
    from meterlake.pipeline.backfill.selection import BackfillSelection
    from meterlake.stores import Organization

ModeName = Literal["retract", "re-aggregate", "re-derive", "replace"]
StatusName = Literal["STAGING", "STAGED", "APPLIED", "DROPPED", "REVERTED", "FAILED"]
Text = Annotated[str | None, Parameter(show_default=False)]
Texts = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]
Paths = Annotated[tuple[Path, ...], Parameter(negative_iterable=(), show_default=False)]
LISTED: Final = (
    *("!id", "mode", "?file", "status", "reason", "?author", "?created", "?gone", "?came"),
)
QUANTITIES: Final = (
    *("!account", "!month=period", "aggregation", "was", "becomes", "?meter", "?start"),
    *("?unitsWere=units were", "?unitsBecome=units become"),
)
BILLS: Final = (
    "!account",
    "!month",
    "status",
    "?locked",
    "?billed",
    "before",
    "after",
    "difference",
)
TOTALS: Final = ("!currency", "bills", "before", "after", "difference")
AMOUNTS: Final = (
    *("!account", "!month", "product", "?lineItemType=line type"),
    *("before", "after", "difference"),
)
_PAGE: Final = 50
_ROWS: Final = 20
_START: Final = ("config:create", "backfill")
_CHANGE: Final = ("config:update", "backfill")


@Parameter(name="*")
@dataclass(frozen=True)
class BackfillOptions:
    """What a backfill is about.

    Attributes:
        reason: Your reason; you need it to retract.
        month: The month, such as 2026-10, or `last` or `current`.
        since: Instead of a month: the first day or instant.
        until: The day or instant after the last one.
        meter: Codes of meters; if you leave it out, all.
        account: Codes of accounts; if you leave it out, all.
        source: To retract a file: its name, or the beginning of the source's identity.
        uid: To retract single measurements: their uids.
        file: To replace: the files that take the place of the measurements of the window.
        mapping: A mapping, if another program made these files.
    """

    reason: Text = None
    month: Text = None
    since: Text = None
    until: Text = None
    meter: Texts = ()
    account: Texts = ()
    source: Text = None
    uid: Texts = ()
    file: Paths = ()
    mapping: Annotated[Path | None, Parameter(show_default=False)] = None

    def selection(self, mode: ModeName) -> "BackfillSelection":
        """As the pipeline takes it."""
        from meterlake.pipeline.backfill.selection import BackfillSelection

        return BackfillSelection(
            mode=mode,
            reason=self.reason,
            month=self.month,
            since=self.since,
            until=self.until,
            meters=self.meter,
            accounts=self.account,
            source=self.source,
            uids=self.uid,
            files=self.file,
        )


NOTHING: Final = BackfillOptions()


def register(app: App) -> None:
    """Add the commands."""
    backfill = App(
        name="backfill",
        help="Correct stored data; you see every correction before you make it.",
    )
    backfill.command(start)
    backfill.command(show)
    backfill.command(rows)
    backfill.command(apply_, name="apply")
    backfill.command(drop)
    backfill.command(revert)
    backfill.command(list_, name="list")
    app.command(backfill)


def start(
    mode: Annotated[ModeName | None, Parameter(show_default=False)] = None,
    *,
    about: BackfillOptions = NOTHING,
    id: Text = None,
    apply: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    options: FanOutOptions = NO_FAN_OUT_OPTIONS,
) -> None:
    """Stage a correction and show what it changes; nothing changes until you apply it.

    With retract you withdraw a file or single measurements; with re-derive you calculate derived
    fields again; with re-aggregate you calculate quantities again; with replace you put files in
    the place of measurements.

    Example: `meterlake backfill start retract --source usage.csv --reason "sent twice"`

    Args:
        mode: The kind of correction; you do not need it to stage an existing backfill again, by its
            id.
        id: Its id; if you start it again with the same id, it goes on where it was.
        apply: Make the change at once.
    """
    from meterlake.model.errors import Required
    from meterlake.pipeline import backfill
    from meterlake.pipeline.backfill import Order
    from meterlake.pipeline.backfill.selection import resolve_backfill

    with (
        options.open() as organization,
        options.output.progress() as progress,
    ):
        if mode is not None:
            spec = resolve_backfill(organization, about.selection(mode))
            order = Order(
                spec,
                options.permitted(organization, _START),
                id,
                about.file,
                about.mapping,
            )
            found = backfill.start(organization, order, progress)
        elif id is not None and about == NOTHING:
            author = options.permitted(organization, _START)
            found = backfill.restart(organization, id, author, progress)
        else:
            raise Required("mode")
        if apply:
            author = options.permitted(organization, _CHANGE, [found.id])
            found = backfill.apply(organization, found.id, author, progress)
        texts = _Texts.read(organization, found)
    _show(found, texts, options)


def show(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show a backfill: what it changes, and each step with its instant and author.

    Example: `meterlake backfill show october-again`

    Args:
        id: Its id.
    """
    from meterlake.pipeline import backfill

    with options.open() as organization:
        found = backfill.show(organization, id)
        texts = _Texts.read(organization, found)
    _show(found, texts, options)


def rows(id: str, /, *, limit: Limit = _ROWS, options: Options = NO_OPTIONS) -> None:
    """Show the first measurements, by time, that a backfill takes, brings or changes.

    You see them before you apply the backfill and afterwards, and how many of each meter there are.

    Example: `meterlake backfill rows october-again`

    Args:
        id: Its id.
        limit: The largest number that you want to see.
    """
    from meterlake.pipeline.backfill.staged_effects import changed_measurements

    with options.open() as organization:
        found = changed_measurements(organization, id, limit)
    sides = ("before", "after")
    shown = (
        found["rows"]
        if options.json
        else [{**each, **{side: _side(each.get(side)) for side in sides}} for each in found["rows"]]
    )
    columns = ("uid", "meter", "account", "?ts=Time", *sides)
    options.output.rows(shown, columns, empty="No measurement changes.")
    if len(found["meters"]) > 1 and not options.json:
        counts = (f"{each['meter']} {each['measurements']:,}" for each in found["meters"])
        options.output.note(f"Of each meter: {', '.join(counts)}.")
    if found["more"] and not options.json:
        options.output.note(f"There are more than these {limit}: --limit shows them.")


def _side(fields: Mapping[str, str] | None) -> str:
    shown = () if fields is None else fields.items()
    return ", ".join(f"{name} {value}" for name, value in shown if "." in name)


def apply_(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Make the change of a backfill, in one commit.

    The command refuses if the subject of the backfill has changed since you staged it: start it
    again then.

    Example: `meterlake backfill apply october-again`

    Args:
        id: Its id.
    """
    from meterlake.pipeline import backfill

    with (
        options.open() as organization,
        options.output.progress() as progress,
    ):
        author = options.permitted(organization, _CHANGE, [id])
        found = backfill.apply(organization, id, author, progress)
        texts = _Texts.read(organization, found)
    _show(found, texts, options)


def drop(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Throw away the staged data of a backfill; the history keeps its entry.

    Example: `meterlake backfill drop october-again`

    Args:
        id: Its id.
    """
    from meterlake.pipeline import backfill

    _done(id, options, backfill.drop)


def revert(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Undo an applied backfill: everything is as it was before.

    The command refuses if a later source took a freed uid, or a later backfill built on it.

    Example: `meterlake backfill revert october-again`

    Args:
        id: Its id.
    """
    from meterlake.pipeline import backfill

    _done(id, options, backfill.revert)


def list_(
    *,
    status: Annotated[StatusName | None, Parameter(show_default=False)] = None,
    limit: Limit = _PAGE,
    options: Options = NO_OPTIONS,
) -> None:
    """Show the newest backfills: author, mode, instant and reason, and how each ended.

    Example: `meterlake backfill list --status STAGED`

    Args:
        status: Only those of this status.
        limit: The largest number that you want to see.
    """
    from meterlake.model.work.backfill import BackfillStatus
    from meterlake.pipeline import backfill
    from meterlake.pipeline.access.named_people import with_names
    from meterlake.pipeline.backfill.selection import source_names

    spec = None if status is None else BackfillStatus(status)
    with options.open() as organization:
        found = backfill.history(organization, limit, spec)
        rows = [each.to_wire() for each in found]
        if not options.json:
            rows = with_names(organization, rows, "author")
        names = source_names(organization, found)
    for row, each in zip(rows, found, strict=True):
        row["file"] = names.get(each.spec.source or "")
        row["gone"] = row["summary"].get("measurementsGone")
        row["came"] = row["summary"].get("measurementsCame")
    options.output.rows(rows, LISTED, empty="No backfills.")


def _done(
    id: str, options: Options, verb: Callable[["Organization", str, str], "Backfill"]
) -> None:
    with options.open() as organization:
        author = options.permitted(organization, _CHANGE, [id])
        found = verb(organization, id, author)
        texts = _Texts.read(organization, found)
    _show(found, texts, options)


@dataclass(frozen=True, slots=True)
class _Texts:
    """What people read of a backfill: its amounts, and who did what."""

    amounts: AmountText
    history: list[dict[str, Any]]
    source: str | None

    @classmethod
    def read(cls, organization: "Organization", found: "Backfill") -> Self:
        """The texts of a backfill as they are now."""
        from meterlake.pipeline.access.named_people import with_names
        from meterlake.pipeline.backfill.selection import source_names

        history = [each.to_wire() for each in found.history]
        named = with_names(organization, history, "author")
        source = source_names(organization, [found]).get(found.spec.source or "")
        return cls(AmountText.read(organization), named, source)


def _show(found: "Backfill", texts: _Texts, options: Options) -> None:
    from meterlake.pipeline.backfill.priced import total_by_currency, with_difference

    line = found.to_wire()
    if options.json:
        options.output.line(line)
        return
    summary = line.pop("summary")
    del line["history"]
    if texts.history:
        line["author"] = texts.history[0]["author"]
    shown = {name: value for name, value in line.items() if name != "wanted"}
    if texts.source is not None:
        shown["file"] = texts.source
    counts = {name: value for name, value in summary.items() if isinstance(value, int)}
    options.output.record({**shown, **line["wanted"], **counts})
    bills = [with_difference(each) for each in summary.get("bills", ())]
    summary["amounts"] = [row for each in bills for row in _amounts(each, texts.amounts)]
    summary["totals"] = [
        each | _written(each, each["currency"], texts.amounts) for each in total_by_currency(bills)
    ]
    summary["bills"] = [each | _written(each, each["currency"], texts.amounts) for each in bills]
    for name, columns, title in (
        ("quantities", QUANTITIES, "Quantities before and after"),
        ("bills", BILLS, "Bills as they would come out before and after"),
        ("totals", TOTALS, "These bills together"),
        ("amounts", AMOUNTS, "Amounts of these bills that change"),
        ("rejected", ("name=file", "row", "!reason", "?field", "detail"), "Rejected rows"),
    ):
        if summary.get(name):
            options.output.rows([_flat(each) for each in summary[name]], columns, title)
    options.output.rows(texts.history, ("action", "at", "author", "detail"), "History")
    for step in found.next_steps():
        options.output.note(step.what)
        options.output.command(step.words)


def _amounts(bill: dict[str, Any], amounts: AmountText) -> Iterator[dict[str, Any]]:
    """What changes of a bill, by product and line type."""
    for each in bill.get("amounts", ()):
        numbers = _written(each, bill["currency"], amounts)
        yield {name: bill[name] for name in ("month", "account")} | each | numbers


def _written(entry: dict[str, Any], currency: str, amounts: AmountText) -> dict[str, Any]:
    """The amounts of a bill, or of a part of it, as people read them."""
    return {
        name: amounts.money(Decimal(entry[name]), currency, sign=name == "difference")
        for name in ("billed", "before", "after", "difference")
        if entry.get(name) is not None
    }


def _flat(entry: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(entry.get("before"), dict) and not isinstance(entry.get("after"), dict):
        return entry
    from meterlake.cli.shell.tables import Digits
    from meterlake.model.usage.quantity import changed_texts

    shown = {name: Digits(text or "") for name, text in changed_texts(entry).items()}
    segment = entry.get("segment")
    name = f"{entry['aggregation']} {segment}" if segment else entry["aggregation"]
    return {
        **entry,
        "aggregation": name,
        "was": shown["before"],
        "becomes": shown["after"],
        "unitsWere": shown["units before"],
        "unitsBecome": shown["units after"],
    }
