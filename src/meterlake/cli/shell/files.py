"""Files that commands write."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

from meterlake.model.errors import Invalid


def check_target(name: str, path: Path) -> None:
    """Check the file that an option names, before work is done for it.

    Raises:
        Invalid: There is no such folder, or the path is one.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise Invalid(name, str(path), "it must be a file in a folder that exists")


# What is written in which format ends so.
ENDINGS: Final = MappingProxyType(
    {
        "csv": (".csv",),
        "html": (".html", ".htm"),
        "json": (".json", ".ndjson", ".jsonl"),
        "parquet": (".parquet",),
        "pdf": (".pdf",),
        "svg": (".svg",),
    }
)


def check_ending(name: str, path: Path, format_: str) -> None:
    """Refuse a file whose name says that it is of another format than what is written.

    Raises:
        Invalid: Its ending is that of another format.
    """
    ending = path.suffix.lower()
    others = {each for known in ENDINGS.values() for each in known} - {*ENDINGS[format_]}
    if ending in others:
        fitting = " or ".join(ENDINGS[format_])
        rule = f"its name must end in {fitting}, as what is written is {format_.upper()}"
        raise Invalid(name, str(path), rule)


def format_named(
    given: str | None, to: Path | None, endings: Mapping[str, tuple[str, ...]], default: str
) -> str:
    """The format of a file: as the option says, else as the ending of its name does.

    Args:
        given: What `--format` says; None if nothing does.
        to: The file; None for the standard output.
        endings: The endings that fit a format, by format.
        default: The format if nothing names one.

    Raises:
        Invalid: The ending does not fit the format, or is that of none.
    """
    ending = "" if to is None else to.suffix.lower()
    if not ending or (given is not None and ending in endings[given]):
        return given or default
    named = next((each for each, known in endings.items() if ending in known), None)
    if given is None and named is not None:
        return named
    fitting = (
        endings[given]
        if given is not None
        else [each for known in endings.values() for each in known]
    )
    format_ = "" if given is None else f", as --format is {given}"
    raise Invalid("--to", str(to), f"its name must end in {' or '.join(fitting)}{format_}")


def write_file(path: Path, data: bytes, name: str = "--to") -> None:
    """Write a whole file, or none.

    Args:
        name: The option that names it.

    Raises:
        Invalid: There is no such folder, or the path is one.
    """
    from meterlake.stores.files.durable import write_durably

    check_target(name, path)
    with write_durably(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def open_target(path: Path | None) -> Iterator[BinaryIO]:
    """Where bytes go: a file, which is whole or not there, or the standard output."""
    from meterlake.stores.files.durable import write_durably

    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with write_durably(path.absolute()) as temporary, temporary.open("wb") as stream:
        yield stream
