"""Questions to whoever sits at the terminal, before something that cannot be undone."""

import sys

from meterlake.cli.shell.output import Output
from meterlake.model.errors import MeterlakeError


def require_somebody(output: Output, refusal: MeterlakeError) -> None:
    """Refuse what asks a question if nobody is there who could answer it.

    Raises:
        MeterlakeError: The refusal.
    """
    if output.json or not sys.stdin.isatty():
        raise refusal


def confirm(question: str, output: Output) -> bool:
    """Ask whether something may be done; any other answer than yes is no."""
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    output.note("Nothing was changed.")
    return False
