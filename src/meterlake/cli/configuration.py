"""`meterlake config`: configuration as code, and prices of many plans multiplied at once."""

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli import change_proposals
from meterlake.cli.change_proposals import propose_documents
from meterlake.cli.shell.file_problems import show_problems
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import confirm, require_somebody
from meterlake.model.errors import Invalid, MeterlakeError, Required
from meterlake.model.values.ids import UNNAMED
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.cli.shell.output import Output
    from meterlake.model.catalog.plans import PriceScale
    from meterlake.model.resources.proposal import Document
    from meterlake.pipeline.config.apply_configuration import EntityChange
    from meterlake.stages.config.scale_prices import ScaledPrices
    from meterlake.stores import Organization


# More entities than these are counted by kind; --wide lists them.
_LISTED_MAX: Final = 12
_COLUMNS: Final = frozenset({"plan", "aggregation", "by", "price", "above"})
# The columns with numbers, and what the API calls them.
_NUMBERS: Final = {"by": "by", "price": "unitPrice", "above": "lowerLimit"}


def register(app: App) -> None:
    """Add the commands."""
    config = App(
        name="config",
        help="Configuration as code: apply or propose your files, review proposals, export the stored configuration.",
    )
    config.command(apply)
    config.command(export)
    config.command(schema)
    config.command(scale_prices, name="scale-prices")
    change_proposals.register(config)
    app.command(config)


def apply(
    *paths: Annotated[Path, Parameter(name="PATH", required=True)],
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    prune: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(negative="")] = False,
    allow_unknown: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> int:
    """Give the organization the configuration of your files, all or nothing, and show the changes.

    You write YAML or JSON with entities in the shape of the API, which refer to each other by code
    or id. Entities that your files do not mention stay as they are, unless you give `--prune`; so
    do keys of `organizationConfig`. If you apply the files twice, nothing changes. You find
    problems on stderr, one a line, with file and line.

    Example: `meterlake config apply configuration/ --dry-run`

    Args:
        paths: Files, and folders of files.
        dry_run: Show the changes, and make none.
        prune: Delete the entities that your files leave out, of the kinds that they list. You see
            them first, and confirm. If another entity still uses one of them, nothing happens.
        yes: Prune without asking, in scripts.
        allow_unknown: Ignore unknown names within entities, instead of refusing them.
    """
    from meterlake.pipeline.config import apply_configuration
    from meterlake.pipeline.config.duckdb_rules import guard_measured
    from meterlake.pipeline.config.webhook_addresses import address_policy
    from meterlake.stores.custom_sql import limits_of

    documents: list[Document] = []
    try:
        documents += apply_configuration.read_documents(paths)
        with options.open() as organization:
            apply_options = apply_configuration.ApplyOptions(
                dry_run=dry_run,
                allow_unknown=allow_unknown,
                prune=prune,
                measured=guard_measured(organization),
                limits=limits_of(organization.settings),
                addresses=address_policy(organization.settings),
            )
            work = partial(
                apply_configuration.apply, organization.state, organization.id, documents
            )
            author = UNNAMED
            if options.as_ is not None and not dry_run:
                planned = work(author, replace(apply_options, dry_run=True))
                author = _permitted(organization, options, planned)
            verb = partial(work, author)
            if prune and not (yes or dry_run):
                found = _confirm_deletions(verb(replace(apply_options, dry_run=True)), options)
                if found is None:
                    return 1
                apply_options = replace(apply_options, approved=found)
            changes = verb(apply_options)
    except MeterlakeError as error:
        show_problems(documents, error, json=options.json)
        return 1
    if options.json:
        for change in changes:
            options.output.line(_to_wire(change))
    else:
        _show(changes, options, dry_run=dry_run)
    return 0


def _permitted(
    organization: "Organization", options: Options, planned: Sequence["EntityChange"]
) -> str:
    """Who changes the configuration, if they may change each entity so."""
    from meterlake.pipeline.config.change_proposals import rights_needed

    changes = [{"kind": each.kind, "id": each.id, "action": each.action} for each in planned]
    author = UNNAMED  # Of what does not change.
    for to, ids in rights_needed(changes).items():
        author = options.permitted(organization, to, ids)
    return author


def _confirm_deletions(changes: "list[EntityChange]", options: Options) -> frozenset[str] | None:
    """The ids of what somebody says may be deleted; None if they say no.

    Raises:
        Invalid: Nobody is there to be asked.
    """
    gone = [change for change in changes if change.action == "deleted"]
    if not gone:
        return frozenset()
    rule = (
        f"it makes {counted(len(gone), 'deletion')}, and nobody can be asked here;"
        " add --yes, or look with --dry-run"
    )
    require_somebody(options.output, Invalid("--prune", True, rule))
    _show_entities(gone, "deleted", options.output)
    if not confirm(f"Delete {'this' if len(gone) == 1 else f'these {len(gone)}'}?", options.output):
        return None
    return frozenset(change.id for change in gone)


def export(*, options: Options = NO_OPTIONS) -> None:
    """Print the organization's configuration as YAML, or as one JSON object with --json.

    If you apply it to an empty organization, you get the same configuration.

    Example: `meterlake config export > configuration.yaml`
    """
    from meterlake.pipeline.config import apply_configuration

    with options.open() as organization:
        if options.json:
            options.output.line(apply_configuration.export(organization.state, organization.id))
        else:
            sys.stdout.write(apply_configuration.export_yaml(organization.state, organization.id))


def schema() -> None:
    """Print the JSON Schema of configuration files, for editors.

    Example: `meterlake config schema > meterlake.schema.json`
    """
    from meterlake.model.values import wire
    from meterlake.stages.config.reference.schema import configuration_schema

    sys.stdout.write(wire.dumps_pretty(configuration_schema()).decode())


def _to_wire(change: "EntityChange") -> dict[str, Any]:
    return {
        "file": change.place,
        "kind": change.kind,
        "name": change.name,
        "id": change.id,
        "action": str(change.action),
        "differences": [
            {"field": each.field, "old": each.old, "new": each.new} for each in change.differences
        ],
        "ignored": change.ignored,
        "withoutEffect": change.without_effect,
    }


def _show(changes: list["EntityChange"], options: Options, *, dry_run: bool) -> None:
    output = options.output
    for action in ("created", "deleted"):
        _show_entities([each for each in changes if each.action == action], action, output)
    updated = [row for change in changes if change.action == "updated" for row in _rows(change)]
    output.rows(updated, ("action", "kind", "!name", "field", "old", "new"))
    for change in changes:
        if change.ignored:
            output.note(f"{change.place}: ignored: {', '.join(change.ignored)}")
    # What was written and has no effect yet, each sentence once with the first that says so.
    told: dict[tuple[str, str], list[str]] = {}
    for entry in changes:
        for sentence in entry.without_effect if entry.action != "unchanged" else ():
            told.setdefault((entry.kind, sentence), []).append(entry.name)
    for (kind, sentence), names in told.items():
        who = f" {names[0]}" if names[0] else ""
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        options.output.note(f"note: {kind}{who}{more}: {sentence}")
    counts: dict[str, int] = {}
    for change in changes:
        counts[str(change.action)] = counts.get(str(change.action), 0) + 1
    summary = ", ".join(f"{count} {action}" for action, count in counts.items()) or "no entities"
    output.note(f"{summary}{' (dry run: nothing was written)' if dry_run else ''}")


def _show_entities(changes: list["EntityChange"], action: str, output: "Output") -> None:
    """Print entities that came or went: one by one if they are few, or how many of each kind."""
    if len(changes) <= _LISTED_MAX or output.wide:
        rows = [row for change in changes for row in _rows(change)]
        output.rows(rows, ("action", "kind", "!name"))
        return
    counts = Counter(change.kind for change in changes)
    rows = [{"kind": kind, "count": count} for kind, count in counts.items()]
    output.rows(rows, ("kind", f"count={action}"))


def _rows(change: "EntityChange") -> Iterator[dict[str, Any]]:
    """The lines of the diff: one per new entity, one per changed field."""
    head = {"action": str(change.action), "kind": change.kind, "name": change.name}
    if head["action"] in {"created", "deleted"}:
        yield head
    elif head["action"] == "updated":
        for each in change.differences:
            yield head | {"field": each.field, "old": each.old, "new": each.new}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Scale:
    """Which prices change, and how.

    Attributes:
        plans: The codes of plans and plan templates, with commas.
        from_: The first day of the new prices, such as 2027-01-01.
        by: The factor, such as 1.07.
        table: A CSV file: a row decides for what it names, and --by for the rest. Its columns are by or
            price, the new price of a unit; plan or aggregation or both; and above, the lower limit of
            the band whose price it is, for prices of several bands.
        own_prices: Give plans prices of their own where they have those of their templates, so that
            other plans of these keep theirs.
        decimals: How many decimals new prices have; without it, two more than the old ones. They
            round half up.
    """

    plans: Annotated[str, Parameter(show_default=False)]
    from_: Annotated[str, Parameter(name="--from", show_default=False)]
    by: Annotated[str | None, Parameter(show_default=False)] = None
    table: Annotated[Path | None, Parameter(show_default=False)] = None
    own_prices: Annotated[bool, Parameter(negative="")] = False
    decimals: Annotated[int | None, Parameter(show_default=False)] = None

    def read(self) -> "PriceScale":
        """What the options say.

        Raises:
            Required: Neither a factor nor a table is given.
            Invalid: An option is none.
        """
        from meterlake.model.catalog.plans import PriceScale
        from meterlake.model.values.problems import read

        if self.by is None and self.table is None:
            raise Required("--by or --table")
        document = {
            "plans": [each.strip() for each in self.plans.split(",") if each.strip()],
            "from": self.from_,
            "by": None if self.by is None else _number("--by", self.by),
            "factors": [] if self.table is None else list(_scaled_rows(self.table)),
            "decimals": self.decimals,
            "ownPrices": self.own_prices,
        }
        return read(PriceScale, document)


def scale_prices(
    scale: Scale,
    *,
    effect: Annotated[str | None, Parameter(show_default=False)] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    propose: Annotated[str | None, Parameter(show_default=False)] = None,
    reason: Annotated[str | None, Parameter(show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Multiply the prices of plans from a day on, all or none, and show old and new prices.

    A price in force on the day ends there, and one with the new bands begins. A plan has its own
    prices; name its template, too, to change those that its plans share, or give --own-prices.
    Prices that begin later, credits, standing charges and minimum spends stay as they are.

    Example: `meterlake config scale-prices --by 1.07 --plans pro,enterprise --from 2027-01-01 --effect 2026-11 --dry-run`

    Args:
        effect: Show what the new prices would have done to the bills of this month, such as 2026-11.
        dry_run: Show the changes, and make none.
        propose: Propose the changes for a review under this name, and make none.
        reason: Why you propose them.
    """
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.what_if.price_change import price_effect
    from meterlake.pipeline.config.scale_prices import apply_prices, propose_prices

    asked = scale.read()
    month = None if effect is None else Month.parse(effect)
    with options.open() as organization:
        found = propose_prices(organization, asked)
        done = None if month is None else price_effect(organization, asked, month)
        if propose is not None:
            if reason is None or dry_run:
                rule = "give --reason with it, and no --dry-run: a proposal changes no price"
                raise Invalid("--propose", propose, rule)
            propose_documents(organization, options, (propose, reason), found.documents())
        elif not dry_run:
            for action in ("config:create", "config:update"):
                author = options.permitted(organization, (action, "pricing"))
            apply_prices(organization, author, asked, found.review)
    if options.json:
        options.output.line({**found.to_wire(), **({} if done is None else {"effect": done})})
        return
    _show_scaled(found, done, options, dry_run=dry_run or propose is not None)
    if propose is not None:
        options.output.note(f"You proposed {propose}: a reviewer approves it, and it is applied.")


def _scaled_rows(table: Path) -> "Iterator[dict[str, Any]]":
    """The rows of a table of factors.

    Raises:
        Invalid: It has other columns, or is no CSV file.
    """
    try:
        with table.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            "--table", str(table), f"it must be a CSV file that one can read: {error}"
        ) from None
    for number, row in enumerate(rows, start=2):
        if not ({"by", "price"} & set(row)) or not set(row) <= _COLUMNS:
            rule = (
                "it must have the columns by or price, and plan or aggregation or both;"
                " it may have above"
            )
            raise Invalid("--table", str(table), rule)
        named = {name: text for name in ("plan", "aggregation") if (text := row.get(name))}
        numbers = {
            field: _number(f"{table}:{number}: {name}", text)
            for name, field in _NUMBERS.items()
            if (text := row.get(name))
        }
        yield {**named, **numbers}


def _number(name: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Invalid(name, text, "it must be a number such as 1.07") from None


def _show_scaled(
    found: "ScaledPrices", effect: dict[str, Any] | None, options: Options, *, dry_run: bool
) -> None:
    output = options.output
    rows = [row for each in found.changed for row in _band_rows(each.to_wire())]
    columns = ("!plan", "!priced", "above", "old", "new", "?fixed", "?new fixed", "currency")
    output.rows(rows, columns)
    for each in found.unchanged:
        output.note(f"{each.plan} {each.priced}: {each.reason}")
    _note_scope(found, output)
    if effect is not None:
        totals = [{"currency": code, **each} for code, each in effect["totals"].items()]
        title = f"Bills of {effect['months']['first']}"
        output.rows(totals, ("currency", "before", "after", "difference"), title)
    output.note(f"New prices are rounded {found.rounding}.")
    done = counted(len(found.changed), "price changes", "prices change")
    output.note(f"{done} on {found.day}{' (dry run: nothing was written)' if dry_run else ''}")


def _note_scope(found: "ScaledPrices", output: "Output") -> None:
    """Say whom shared prices concern, and which charges stay."""
    from meterlake.model.values.money import plain

    for template in found.templates:
        plans = ", ".join(
            f"{each.code} ({counted(each.customers, 'customer')})" for each in template.plans
        )
        fate = "change" if template.is_chosen else "stay as they are"
        output.note(f"The prices of template {template.code} {fate}; its plans: {plans or 'none'}.")
        if not template.is_chosen and not any(each.own_of for each in found.changed):
            output.note(
                "With --own-prices the plans that you name get prices of their own instead."
            )
    for each in found.charges:
        charge = each.charge.lower().replace("_", " ")
        output.note(
            f"{each.plan}: the {charge} stays {plain(each.amount)} {each.currency}; it has no day from"
            " which it holds"
        )


def _band_rows(price: dict[str, Any]) -> "Iterator[dict[str, Any]]":
    for band in (*price["bands"], *price["overageBands"]):
        yield {
            "plan": price["plan"],
            "priced": price["priced"],
            "above": band["lowerLimit"],
            "old": band["unitPrice"]["old"],
            "new": band["unitPrice"]["new"],
            "fixed": band["fixedPrice"]["old"],
            "new fixed": band["fixedPrice"]["new"],
            "currency": price["currency"],
        }
