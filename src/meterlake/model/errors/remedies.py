"""What to do about a thing that is not there, where nobody knows which other one may be meant."""

from typing import Final

_LOOK: Final = "check how it is written, and that it is not deleted or of another organization"
_REMEDIES: Final = {
    "bucket": "create it, or name another one",
    "file": "check its path",
    "lake": "ingest measurements first",
    "object": "check its name, and that nobody removed it",
    "object or bucket": "check its name, and create the bucket if it is not there",
    "version of the bill": "choose one that the bill has",
}


def find_remedy(kind: str, id: str) -> str:
    """What to do, by the kind of the thing and by what it was called."""
    if id == "of the organization":
        return "create it first"
    return _REMEDIES.get(kind, _LOOK)
