"""When a command looks for garbage: not while it imports.

Modules are hardly ever garbage, but Python searches each time when 700 more objects live.
"""

import gc
from typing import Final

_WHILE_IMPORTING: Final = 300_000
_USUAL: Final = gc.get_threshold()


def put_off_collection() -> None:
    """Search seldom from now on."""
    gc.set_threshold(_WHILE_IMPORTING, *_USUAL[1:])


def resume_collection() -> None:
    """Search as usual, if it was put off; what lives by now is never searched again."""
    if gc.get_threshold()[0] == _WHILE_IMPORTING:
        gc.freeze()
        gc.set_threshold(*_USUAL)
