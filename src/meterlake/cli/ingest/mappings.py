"""`meterlake mapping`: how files of other programs are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from meterlake.cli.ingest.command import report_preview
from meterlake.cli.shell.options import INTEGER, NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line

if TYPE_CHECKING:
    from meterlake.pipeline.ingest.mapping_trial import MappingTrial

_TRIED_COLUMNS: Final = (
    *("row", "?meter", "?account", "?ts", "?fields", "?reason", "?field", "?detail", "?uid"),
)
_SAVED_COLUMNS: Final = ("!name", "files", "?problem", "?author=saved by", "?saved")
_ROWS_MAX: Final = 50
FileRows = Annotated[int, INTEGER, Parameter(validator=Number(gte=0, lte=_ROWS_MAX))]


def register(app: App) -> None:
    """Add the commands."""
    mapping = App(name="mapping", help="Mappings: read files of other programs as measurements.")
    for command in (check, save, list_, delete):
        mapping.command(command, name="list" if command is list_ else None)
    app.command(mapping)


def check(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *paths: Annotated[Path, Parameter(name="PATH")],
    rows: FileRows = 0,
    options: Options = NO_OPTIONS,
) -> int:
    """Check a mapping against the meters and against your files, and store nothing.

    Each rule needs an existing meter, fields that the meter has, and a column for each of them. If
    you give files, you see the result of their rows. If it finds problems, the command ends with 1.

    Example: `meterlake mapping check flights.yaml flights.csv.gz --rows 5`

    Args:
        file: The mapping.
        paths: Files of measurements to try it on.
        rows: So many of the first rows of each file are shown with what becomes of them.
    """
    from meterlake.pipeline.ingest.files import expand, load_mapping, mapping_problems
    from meterlake.pipeline.ingest.mapping_trial import try_mapping
    from meterlake.stores.files.folders import file_name

    with options.open() as organization:
        mapping = load_mapping(file)
        problems = mapping_problems(organization, mapping)
        trials = [
            try_mapping(organization, path, file_name(path), mapping) for path in expand(paths)
        ]
    options.output.rows([{"problem": each} for each in problems], ("problem",))
    if problems:
        error_line("UnreadableMapping", f"{file.name}: {problems[0]}", json=options.json)
    elif not options.json:
        options.output.note(f"{file.name}: every rule has its meter and fields.")
    for trial in trials if rows else ():
        title = f"The first rows of {trial.receipt.delivery.name}"
        options.output.rows(_tried_rows(trial, rows), _TRIED_COLUMNS, title)
    return report_preview([each.receipt for each in trials], options) or int(bool(problems))


def save(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    name: Annotated[str | None, Parameter(show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Keep a mapping: from now on it reads the files whose names fit its patterns.

    These are dropped and uploaded files, and objects of inboxes. The mapping has to fit the meters,
    and takes the place of the one that has its name.

    Example: `meterlake mapping save flights.yaml`

    Args:
        file: The mapping.
        name: The name to keep it under; that of the file by default.
    """
    from meterlake.pipeline.ingest.files import load_mapping
    from meterlake.pipeline.ingest.saved_mappings import mapping_document, save_mapping

    with options.open() as organization:
        author = options.permitted(organization, ("config:update", "mapping"))
        document = mapping_document(load_mapping(file))
        saved = save_mapping(organization, name or file.stem, document, author)
    options.output.record(saved.to_wire())


def list_(*, options: Options = NO_OPTIONS) -> None:
    """Show the mappings that are kept, with who saved each.

    Example: `meterlake mapping list`
    """
    from meterlake.pipeline.access.named_people import names_of_authors
    from meterlake.pipeline.ingest.saved_mappings import list_mappings

    with options.open() as organization:
        found = [each.to_wire() for each in list_mappings(organization)]
        authors = [each["author"] for each in found if each.get("author")]
        names = {} if options.json else names_of_authors(organization, authors)
    rows = [
        each
        | {"author": names.get(each.get("author", ""), each.get("author"))}
        | ({} if options.json else {"files": each.get("mapping", {}).get("files", ())})
        for each in found
    ]
    options.output.rows(
        rows, _SAVED_COLUMNS, empty="There is no mapping; `meterlake mapping save` keeps one."
    )


def delete(name: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Keep a mapping no more: files of its names are read in meterlake's own format.

    Example: `meterlake mapping delete flights`

    Args:
        name: Its name, as `list` shows it.
    """
    from meterlake.pipeline.ingest.saved_mappings import delete_mapping

    with options.open() as organization:
        options.permitted(organization, ("config:delete", "mapping"))
        delete_mapping(organization, name)


def _tried_rows(trial: "MappingTrial", most: int) -> Iterator[dict[str, Any]]:
    """What the first rows become, or why they do not come in, one after the other."""
    for row in (each.to_wire() for each in trial.rows[:most]):
        outcomes = [*row["measurements"], *row["rejected"]]
        for outcome in outcomes or [{"detail": "no rule is for this row"}]:
            yield {"row": row["row"], **outcome}
