"""`meterlake demo`: the whole way of the data on the sample organization, step by step."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter
from cyclopts.types import Port

from meterlake.cli.ingest.command import COLUMNS, incomplete
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.next_steps import note_home
from meterlake.cli.shell.output import Output
from meterlake.cli.shell.signals import run_flow_module
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from meterlake.settings import Settings
    from meterlake.stores import Organization

CURRENCY: Final = "EUR"
LARGEST: Final = 12
_PORT: Final = 8000
# The bill that is shown, and its line that is explained: one with bands.
SHOWN_ACCOUNT: Final = "meridian-health"
EXPLAINED_LINE: Final = "API calls"
FILE_COLUMNS: Final = tuple(column for column in COLUMNS if column != "detail")

# What an analyst would ask first, on the live lake.
_PER_DAY: Final = """
    SELECT strftime(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin', '%a %d') AS day,
        CAST(sum(input_tokens + output_tokens) AS DECIMAL(38, 0)) AS tokens
    FROM llm_tokens WHERE ts >= '2026-09-30 22:00' AND ts < '2026-10-31 23:00'
    GROUP BY day, date_trunc('day', ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin')
    ORDER BY date_trunc('day', ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin')"""

# What an analyst would start with in the published file.
QUERIES: Final = {
    "What a month brings, by product": """
        SELECT product, bill_currency AS currency, sum(amount) AS amount, count(*) AS lines
        FROM bill_line GROUP BY ALL ORDER BY amount DESC""",
    "What every model is used for, and what it costs us": """
        SELECT model, count(*) AS conversations, count(DISTINCT account) AS accounts,
            sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
            sum(inference)::DECIMAL(18,2) AS cost
        FROM llm_tokens GROUP BY model ORDER BY cost DESC""",
    "Where to look for missing usage": """
        SELECT month, account, meter, measurements, rejected FROM missing_usage
        WHERE rejected > 0 ORDER BY rejected DESC, month, account, meter LIMIT 5""",
}


def register(app: App) -> None:
    """Add the command."""
    app.command(demo)


class StepOutput(Output):
    """Output in steps: a headline for people, a member `step` in every JSON line."""

    step = ""

    def begin(self, step: str, headline: str) -> None:
        """Begin a step."""
        self.step = step
        self.note(f"\n── {headline}")

    def line(self, value: Any) -> None:
        """Print one JSON line with the step that it belongs to."""
        super().line({"step": self.step, **value})


@dataclass(frozen=True)
class Stage:
    """Where the demo plays."""

    organization: "Organization"
    output: StepOutput


def demo(
    *,
    keep: Annotated[bool, Parameter(negative="")] = False,
    prefect: Annotated[bool, Parameter(negative="")] = False,
    console: Annotated[bool, Parameter(negative="")] = False,
    port: Port | None = None,
    home: Annotated[Path | None, Parameter(show_default=False)] = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Run the main job on the sample data, and show the input and the result of each step.

    The organization is invented: one month of a platform that sells LLM tokens, API calls and
    storage to forty accounts.

    Example: `meterlake demo --keep --home demo-home`

    Args:
        keep: Keep the home afterwards; without it the command throws everything away.
        prefect: Run it through the Prefect flows, with a Prefect server of its own, and print the
            address of its pages; with --keep the server stays until you press Ctrl-C.
        console: Serve the home afterwards, and open the console in your browser, signed in; the
            server stays until you press Ctrl-C.
        port: The port of the console; by default 8000, or one that is free.
        home: The folder to play in, which must be new or empty; it is kept. By default a
            temporary one, with --keep ./meterlake-home.
        json: Print one JSON object per line instead of tables.
    """
    output = StepOutput(json=json)
    begun = time.monotonic()
    if console and prefect:
        raise Invalid("--console", True, "leave it out when you give --prefect")
    with _place(home, keep=keep) as settings:
        if prefect:
            return _played_by_flows(settings, keep=keep, kept=bool(home or keep), json=json)
        _play(settings, output)
        if console:
            return _serve_console(settings, port, output)
        output.note(f"\nDone in {time.monotonic() - begun:.1f} s. What to do next:")
        if home or keep:
            note_home(settings)
        from meterlake.pipeline.home.sample import next_steps

        for what, words in next_steps(kept=bool(home or keep)).items():
            output.note(what)
            output.command(words)
    return 0


def _serve_console(settings: "Settings", port: int | None, output: StepOutput) -> int:
    """Serve the home, and open the console as a person of the demo, until a signal comes."""
    import webbrowser

    from meterlake.cli.serve import Listener, ServedParts, serve_home
    from meterlake.model.values.log_lines import log_to_stderr
    from meterlake.pipeline.access.invitation_email import PATH
    from meterlake.pipeline.home.sample import sign_in_sample
    from meterlake.stores.processes import free_port, reserve_port

    output.begin("console", "The console, in your browser")
    log_to_stderr()
    person = sign_in_sample(settings)

    def open_browser(url: str) -> dict[str, str]:
        link = f"{settings.public_url or url}{PATH}?token={person.token}"
        # Without a window, `webbrowser` would give the terminal to a browser of text.
        if sys.platform in {"darwin", "win32"} or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
            webbrowser.open(link)
        # The link works once; who loses the session signs in with these.
        return {"sign_in": link, "email": person.email, "password": person.password}

    parts = ServedParts(no_flows=True)
    with reserve_port(_PORT) as is_free:
        listener = Listener("127.0.0.1", port or (_PORT if is_free else free_port()))
        return serve_home(settings, listener, parts, output, open_browser)


def _played_by_flows(settings: "Settings", *, keep: bool, kept: bool, json: bool) -> int:
    """Run the flows in a process of their own, since they import Prefect; its exit code.

    Raises:
        Invalid: JSON lines were asked for, which the flows do not print.
    """
    if json:
        raise Invalid("--json", True, "leave it out when you give --prefect")
    arguments = ["--home", str(settings.home.absolute()), *["--keep"] * keep, *["--kept"] * kept]
    return run_flow_module("flows.demo", arguments)


@contextmanager
def _place(home: Path | None, *, keep: bool) -> Iterator["Settings"]:
    """The settings of a home of its own: named, or kept, or temporary.

    Raises:
        Conflict: There is something in it already.
    """
    from meterlake.cli.shell.options import read_settings

    if home is None and not keep:
        with tempfile.TemporaryDirectory(prefix="meterlake-demo-") as folder:
            yield read_settings(Path(folder) / "home")
        return
    settings = read_settings(home)
    if settings.home.is_dir() and any(settings.home.iterdir()):
        raise Conflict(f"{settings.home} is not empty; choose another folder with --home")
    yield settings


def _play(settings: "Settings", output: StepOutput) -> None:
    from meterlake.pipeline.home.sample import NAME
    from meterlake.pipeline.home.setup import initialize
    from meterlake.stores import open_stores

    output.begin("init", "A home with an organization, its State database and its lake")
    made = initialize(settings, NAME)
    output.record({"home": str(settings.home.absolute()), "organization": made.org_code})
    with open_stores(settings) as stores:
        stage = Stage(stores.find_organization(made.org_id), output)
        steps = (_configure, _ingest, _aggregate, _bill, _explain, _look, _export, _publish)
        for step in steps:
            step(stage)


def _configure(stage: Stage) -> None:
    import sample_data
    from meterlake.pipeline.config import apply_configuration

    stage.output.begin("config", "Configuration as code: products, meters, prices, accounts")
    documents = apply_configuration.read_documents([sample_data.CONFIGURATION])
    changes = apply_configuration.apply(
        stage.organization.state, stage.organization.id, documents, "demo"
    )
    counts: dict[str, int] = {}
    for change in changes:
        counts[change.kind] = counts.get(change.kind, 0) + 1
    rows = [{"kind": kind, "entities": count} for kind, count in counts.items()]
    stage.output.rows(rows, ("kind", "entities"))


def _ingest(stage: Stage) -> None:
    from meterlake.pipeline.home.sample import drop_sample
    from meterlake.pipeline.ingest.drop import ingest_inbox
    from meterlake.pipeline.ingest.drop_folder import drop_folder

    stage.output.begin("ingest", "Files into the drop folder, and from there into the lake")
    drop_sample(stage.organization)
    folder = drop_folder(stage.organization.stores, stage.organization.code)
    receipts: list[dict[str, Any]] = []
    with stage.output.counting("files", len(list(folder.inbox.iterdir()))) as advance:
        for receipt in ingest_inbox(stage.organization, folder, 0):
            receipts.append(receipt.to_wire())
            advance(1)
    stage.output.rows(receipts, FILE_COLUMNS)
    names = ("received", "accepted", "repeats", "rejected", "incomplete")
    total = {name: sum(line[name] for line in receipts) for name in names}
    stage.output.note(
        f"{total['received']:,} received = {total['accepted']:,} accepted"
        f" + {counted(total['repeats'], 'repeat')} + {total['rejected']:,} rejected{incomplete(total)}"
    )


def _aggregate(stage: Stage) -> None:
    import sample_data
    from meterlake.cli.quantities import QuantityNames, show_quantities
    from meterlake.model.values.period import Month
    from meterlake.pipeline.usage.aggregate import aggregate

    stage.output.begin("aggregate", "Measurements folded into quantities, per account and month")
    result = aggregate(stage.organization, Month.parse(sample_data.MONTH))
    names = QuantityNames.read(stage.organization.state, stage.organization.id)
    show_quantities(result, names, stage.output)


def _bill(stage: Stage) -> None:
    import sample_data
    from meterlake.cli.billing.bill import show_bills
    from meterlake.cli.shell.tables import Bar
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.jobs.jobs import bill

    stage.output.begin("bill", "Quantities priced: a bill for every account")
    month = Month.parse(sample_data.MONTH)
    result = bill(stage.organization, month, author="demo")
    amounts = AmountText.read(stage.organization)
    show_bills(result, amounts, stage.output)
    ours = [each for each in result.bills if each.currency == CURRENCY]
    largest = sorted(ours, key=lambda each: (-each.total, each.account_code))[:LARGEST]
    bars = [
        Bar(each.account_code, each.total, amounts.write(each.total, CURRENCY)) for each in largest
    ]
    stage.output.bars(bars, f"The {LARGEST} largest bills in {CURRENCY}")


def _explain(stage: Stage) -> None:
    """One bill as its customer would read it, and where one of its numbers comes from."""
    import sample_data
    from meterlake.cli.billing.bills import show_bill
    from meterlake.cli.billing.explanation import show_tree
    from meterlake.pipeline.billing.explanation.explain import ExplanationRequest, explain_bill
    from meterlake.pipeline.billing.named_bills import find_bills

    organization = stage.organization
    [bill_id] = find_bills(organization, (SHOWN_ACCOUNT, sample_data.MONTH))
    stage.output.begin("invoice", f"One of the bills: {SHOWN_ACCOUNT}")
    show_bill(organization, bill_id, stage.output)
    stage.output.begin("explanation", f"Where its line {EXPLAINED_LINE} comes from")
    explanation = explain_bill(organization, ExplanationRequest(bill_id, EXPLAINED_LINE, rows=0))
    if stage.output.json:
        stage.output.line(explanation.to_wire())
    else:
        show_tree(explanation, stage.output)


def _export(stage: Stage) -> None:
    import sample_data
    from meterlake.cli.export.options import show_exported
    from meterlake.model.values.period import Month
    from meterlake.model.work.export_request import ExportRequest, Format, Source
    from meterlake.pipeline.export.run import export

    month = Month.parse(sample_data.MONTH)
    for source, form in ((Source.USAGE, Format.PARQUET), (Source.OPERATIONAL, Format.CSV)):
        stage.output.begin("export", f"Exported: {source.value}, as {form.value}")
        request = ExportRequest(source=source, format=form, month=month)
        show_exported(export(stage.organization, request), stage.output)


def _publish(stage: Stage) -> None:
    from meterlake.cli.lake.publish import show_published
    from meterlake.pipeline.publish.run import attach_line, publish

    stage.output.begin("publish", "Published: one DuckDB file for analysts")
    published = publish(stage.organization)
    line = attach_line(stage.organization)
    show_published(published, line, stage.output)
    stage.output.begin("queries", "What an analyst would ask that file first")
    amounts = AmountText.read(stage.organization)
    for title, names, rows in _answers(published.path):
        shown = (
            (dict(zip(names, row, strict=True)) for row in rows)
            if stage.output.json
            else amounts.answer(names, rows, ())
        )
        stage.output.rows(shown, names, title)


def _answers(file: Path) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
    import duckdb

    with duckdb.connect(str(file), read_only=True) as connection:
        for title, statement in QUERIES.items():
            result = connection.execute(statement)
            names = [column[0] for column in result.description or ()]
            yield title, names, result.fetchall()


def _look(stage: Stage) -> None:
    from meterlake.cli.shell.tables import Bar
    from meterlake.pipeline.publish.query import query

    stage.output.begin("sql", "The live lake answers questions")
    with query(stage.organization, _PER_DAY) as answer:
        days = [(str(day), Decimal(tokens)) for day, tokens in answer.rows]
    for day, tokens in days if stage.output.json else ():
        stage.output.line({"day": day, "tokens": tokens})
    bars = [Bar(day, tokens, f"{tokens:,f}") for day, tokens in days]
    stage.output.bars(bars, "Tokens per day in Berlin")
