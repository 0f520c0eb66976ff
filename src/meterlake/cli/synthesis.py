"""`meterlake generate`: measurements for benchmarks and demos."""

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_HOME_OPTIONS, HomeOptions, Integer


def register(app: App) -> None:
    """Add the command."""
    app.command(generate)


def generate(  # noqa: PLR0913 - a command has as many options as it has
    *,
    rows: Integer,
    out: Path,
    seed: Integer = 0,
    format: Literal["csv", "ndjson", "jsonl", "json", "parquet"] | None = None,
    accounts: Integer = 40,
    first_day: Annotated[str, Parameter(name="--from")] = "2026-10-01",
    days: Integer = 31,
    bad: float = 0.0,
    repeats: float = 0.0,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> None:
    """Write seeded, realistic measurements to a file.

    They are of the meter llm_tokens of the sample configuration. The same arguments give the
    same bytes.

    Example: `meterlake generate --rows 1000000 --seed 7 --out usage.csv.gz`

    Args:
        rows: The number of rows.
        out: The file; .gz or .zst at its end compresses it.
        seed: Another seed gives other measurements.
        format: The format; if you leave it out, the name of the file decides.
        accounts: The number of accounts that use it, the first one most.
        first_day: The first day, in UTC.
        days: The number of days of the measurements.
        bad: The share of rows that ingest must reject, such as 0.01.
        repeats: The share of rows that repeat an earlier one, uid and all.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.home.generate import Recipe
    from meterlake.pipeline.home.generate import generate as write

    try:
        begin = date.fromisoformat(first_day)
    except ValueError:
        raise Invalid("--from", first_day, "it must be a day such as 2026-10-01") from None
    recipe = Recipe(rows, seed, accounts, begin, days, bad, repeats)
    with options.output.counting("measurements", rows) as progress:
        generated = write(recipe, out, format, progress)
    record = {
        "path": str(generated.path),
        "received": generated.received,
        "accepted": generated.accepted,
        "repeats": generated.repeats,
        "rejected": generated.rejected,
        "sizeBytes": generated.size_bytes,
    }
    options.output.record(record)
