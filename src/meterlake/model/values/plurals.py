"""Numbers of things as people say them."""

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number and what is counted: `1 file`, `2,000 files`.

    Args:
        number: How many there are.
        noun: What one of them is called, perhaps with its verb: `bill was`.
        plural: What several are called, where that is not the noun with an s: `bills were`.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def first_of(texts: Sequence[str], most: int, between: str = "; ") -> str:
    """The first of some texts, and how many others there are."""
    more = f"{between}and {len(texts) - most:,} more" if texts[most:] else ""
    return between.join(texts[:most]) + more
