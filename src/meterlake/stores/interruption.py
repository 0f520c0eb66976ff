"""Signals that end a process while a library works: what it says of them is no error of its own."""


def interruption_of(error: BaseException) -> BaseException | None:
    """What ends this process, or a part of it, if a library stumbled over that: a signal, Ctrl-C.

    DuckDB says that a query was interrupted. SQLAlchemy tidies up after a statement that was broken
    off, and fails at that. Whoever takes either for a failure goes on instead of ending.

    Args:
        error: What the library raised.

    Returns:
        What it raised that for, if not for another error.
    """
    found: BaseException | None = error
    while isinstance(found, Exception | GeneratorExit):
        found = found.__cause__ or found.__context__
    return found
