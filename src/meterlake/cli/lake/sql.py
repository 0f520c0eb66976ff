"""`meterlake sql`: read-only queries on the live lake, as a table, a file, or one after the other."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, CycloptsError, Parameter

from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.files import check_ending, open_target
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.errors import Invalid

if TYPE_CHECKING:
    from meterlake.cli.shell.output import Output
    from meterlake.stores import Organization

# A table needs all its rows to know how wide they are; who wants more takes a file or --json.
TABLE_ROWS: Final = 1000
_PROMPTS: Final = ("sql> ", "...> ")
_HELP: Final = """End a query with a semicolon. SHOW TABLES lists what there is; the table dictionary
says what it means. exit, or Ctrl-D, ends."""
_TABLES: Final = "SELECT DISTINCT name FROM dictionary ORDER BY name"
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
File = Annotated[Path | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class Form:
    """How rows are written.

    Attributes:
        csv: Print all rows as CSV, with a line of column names.
        parquet: Write all rows as Parquet (zstd).
        out: Write to this file in place of the standard output; with --csv, --parquet or --json.
    """

    csv: Flag = False
    parquet: Flag = False
    out: File = None


_TABLE: Final = Form()


def register(app: App) -> None:
    """Add the command."""
    app.command(sql)


def sql(
    statement: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *,
    file: Annotated[Path | None, Parameter(show_default=False, allow_leading_hyphen=True)] = None,
    form: Form = _TABLE,
    interactive: Annotated[bool, Parameter(name=["--interactive", "-i"], negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Run one read-only query on the live lake, or one after the other.

    You have the tables and views of the published file, under the same names: one for every meter,
    named by its code, quantities, rejected rows, sources and all configuration.

    Example: `meterlake sql "SELECT account, count(*) FROM llm_tokens GROUP BY ALL ORDER BY 2 DESC"`

    Example: `meterlake sql --file usage.sql --parquet --out usage.parquet`

    Args:
        statement: SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE or EXPLAIN; SHOW TABLES lists the views.
        file: Read the query from a file; - is the standard input.
        interactive: Ask for queries, each ended by a semicolon, until exit or Ctrl-D.
    """
    if interactive:
        if statement is not None or file is not None or form != _TABLE:
            raise Invalid(
                "--interactive",
                "-i",
                "give it alone: you type the queries, and the answers are tables",
            )
        with options.open() as organization:
            _ask_and_answer(organization, options.output)
        return
    query = _statement(statement, file)
    _check_form(form, json=options.json)
    with options.open() as organization:
        if form.parquet:
            _write_parquet(organization, query, form.out)
        elif form.csv:
            _write_csv(organization, query, form.out)
        else:
            _answer(organization, query, options.output, form.out)


def _statement(statement: str | None, file: Path | None) -> str:
    if statement is not None and file is not None:
        raise Invalid("--file", str(file), "leave it out when you give a query on the command line")
    if statement is not None:
        return statement
    if file is None:
        raise CycloptsError(msg="a query, --file or --interactive is required")
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise Invalid(
            "--file", str(file), f"it must be a readable text file in UTF-8 ({error})"
        ) from None


def _check_form(form: Form, *, json: bool) -> None:
    chosen = {"--csv": form.csv, "--parquet": form.parquet, "--json": json}
    forms = [name for name, on in chosen.items() if on]
    if len(forms) > 1:
        raise CycloptsError(msg=f"{forms[0]} and {forms[1]} exclude each other")
    if form.out is not None and not forms:
        raise Invalid("--out", str(form.out), "give --csv, --parquet or --json, too")
    if form.out is not None:
        check_ending("--out", form.out, forms[0].removeprefix("--"))
    if form.parquet and form.out is None and sys.stdout.isatty():
        raise CycloptsError(msg="--parquet needs --out: a terminal cannot show it")


def _write_parquet(organization: "Organization", query: str, out: Path | None) -> None:
    from pyarrow.parquet import ParquetWriter

    from meterlake.pipeline.publish.query import query_batches

    with (
        query_batches(organization, query) as (schema, batches),
        open_target(out) as stream,
        ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(organization: "Organization", query: str, out: Path | None) -> None:
    from meterlake.pipeline.publish import query as queries
    from meterlake.stages.decode.csv_lines import csv_lines

    with queries.query(organization, query) as answer, open_target(out) as stream:
        cells = ([queries.text_of(value) for value in row] for row in answer.rows)
        for line in csv_lines([answer.columns]):
            stream.write(line.encode())
        for line in csv_lines(cells):
            stream.write(line.encode())


def _answer(organization: "Organization", query: str, output: "Output", out: Path | None) -> None:
    from meterlake.model.values import wire
    from meterlake.pipeline.publish.query import query as run

    with run(organization, query) as answer:
        if not output.json:
            from meterlake.cli.shell import tables

            amounts = AmountText.read(organization)
            rows = islice(answer.rows, TABLE_ROWS)
            named = list(amounts.answer(answer.columns, rows, answer.tables))
            columns = [tables.TableColumn(each, each) for each in answer.columns]
            width = None if output.wide else tables.terminal_width()
            tables.show(named, columns, width=width, keep_empty=True)
            if not named:
                output.note("No rows.")
            if next(answer.rows, None) is not None:
                output.note(f"The first {TABLE_ROWS:,} rows; --json, --csv and --parquet give all.")
            return
        with open_target(out) if out else nullcontext() as stream:
            for row in answer.rows:
                document = dict(zip(answer.columns, row, strict=True))
                if stream is None:
                    output.line(document)
                else:
                    stream.write(wire.dumps(document) + b"\n")


def _ask_and_answer(organization: "Organization", output: "Output") -> None:
    """Answer queries until there are no more; what is wrong with one of them ends nothing."""
    from meterlake.cli.shell.output import error_line
    from meterlake.model.errors import MeterlakeError

    output.note(_HELP)
    if sys.stdin.isatty():
        _complete_names(organization)
    for query in _read_queries():
        try:
            _answer(organization, query, output, None)
        except MeterlakeError as error:
            error_line(type(error).__name__, str(error), json=output.json)
        except KeyboardInterrupt:
            output.note("Stopped.")


def _read_queries() -> Iterator[str]:
    """The queries that somebody types, each over as many lines as it takes."""
    lines: list[str] = []
    while True:
        try:
            line = input(_PROMPTS[bool(lines)])
        except EOFError:
            break
        except KeyboardInterrupt:
            lines.clear()
            sys.stdout.write("\n")
            continue
        if not lines and line.strip().rstrip(";").casefold() in {"exit", "quit", ".exit", ".quit"}:
            return
        if line.strip() or lines:
            lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines.clear()
    if lines:
        yield "\n".join(lines)


def _complete_names(organization: "Organization") -> None:
    """Let Tab complete the names of tables and views, where the terminal has readline."""
    try:
        import readline
    except ImportError:
        return
    from meterlake.pipeline.publish.query import query

    with query(organization, _TABLES) as answer:
        names = [str(row[0]) for row in answer.rows]

    def complete(text: str, number: int) -> str | None:
        found = [name for name in names if name.startswith(text)]
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
