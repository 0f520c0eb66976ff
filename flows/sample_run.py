"""The steps of the demo: each one a flow, and its outcome printed."""

import flows  # noqa: F401

# isort: split
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cyclopts import App

from flows.bill import bill
from flows.command import show
from flows.export import export
from flows.incomplete import Incomplete
from flows.ingest import ingest
from flows.maintain import maintain
from flows.outcome import Row
from flows.publish import publish
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.home.sample import MONTH
from meterlake.stores.processes import end_with_parent


def run_sample(*, home: Path, org: str) -> None:
    """Run the main job of the sample organization and print what came of each step.

    Args:
        home: The home folder.
        org: The organization's code; its files lie in the drop folder.
    """
    end_with_parent()
    for headline, run in _steps(home, org):
        _say(f"\n── {headline}")
        begun = time.monotonic()
        rows = run()
        show([{name: value for name, value in row.items() if name != "problems"} for row in rows])
        _say(f"   {time.monotonic() - begun:.1f} s")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _steps(home: Path, code: str) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    org = (code,)
    yield "ingest: files from the drop folder into the lake", lambda: ingest(home=home, org=org)
    yield (
        f"bill: the quantities and bills of {MONTH}",
        lambda: bill(home=home, org=org, month=MONTH),
    )
    yield (
        "export: measurements and quantities as files",
        lambda: export(home=home, org=org, source="usage"),
    )
    yield (
        "export: bills and configuration as files",
        lambda: export(home=home, org=org, source="operational", format="parquet"),
    )
    yield "publish: the analysts' DuckDB file", lambda: publish(home=home, org=org)
    yield "maintain: small files merged", lambda: maintain(home=home, org=org)


if __name__ == "__main__":
    app = App(name="python -m flows.sample_run", version_flags=(), result_action="return_value")
    app.default(run_sample)
    try:
        app()
    except (Incomplete, MeterlakeError) as error:
        sys.exit(f"demo: {error}")
