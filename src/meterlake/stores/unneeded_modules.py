"""What processes do without, although it may be installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _NoPandas:
    """Finds no pandas, as where it is not installed; Arrow, unlike DuckDB, trips over less."""

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Let nobody load pandas: where it is installed, DuckDB does for the first parameter."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
