"""Named points at which tests stop the process; in production nothing happens at them."""

from collections.abc import Callable

# Tests put a function here in a child process; it may kill the process or raise.
hook: Callable[[str], None] | None = None


def mark_step(name: str) -> None:
    """Mark a step of a job, so that a test can crash there."""
    if hook is not None:
        hook(name)
