"""Which members of two documents of the wire differ."""

from collections.abc import Iterator
from typing import Any, Final

# Members that are not there on one of the sides.
_ABSENT: Final = object()


def differing_members(
    stored: Any, calculated: Any, path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The members that differ, by their paths: `usagePerPricingBand[1].bandSubtotal`."""
    if isinstance(stored, dict) and isinstance(calculated, dict):
        for name in dict.fromkeys((*stored, *calculated)):
            sides = stored.get(name, _ABSENT), calculated.get(name, _ABSENT)
            yield from differing_members(*sides, f"{path}.{name}" if path else name)
    elif isinstance(stored, list) and isinstance(calculated, list):
        if len(stored) != len(calculated):
            yield path, stored, calculated
            return
        for number, sides in enumerate(zip(stored, calculated, strict=True)):
            yield from differing_members(*sides, f"{path}[{number}]")
    elif stored != calculated:
        yield path, _present(stored), _present(calculated)


def _present(value: Any) -> Any:
    return None if value is _ABSENT else value
