"""What a long run keeps until its end is not looked at again and again for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_lived() -> Iterator[None]:
    """Spare all objects that there are now from Python's search for cycles, until the end.

    The entities and quantities of 50,000 accounts are millions of objects. Every full search would
    visit all of them, and making bills causes many.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
