"""Letters to people: files in the home's outbox until a mail server has them.

The name of a file says when its letter was written, and of one that a mail server did not take how
often it was tried and when the next try is due: `20261001T000000-<id>~2~20261001T001000.eml`.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

from meterlake.stores.files.durable import PRIVATE, disk, make_folder

_STAMP: Final = "%Y%m%dT%H%M%S"
# What programs that show letters make links of: a dot, or one of its likes, between words, and
# everything that only addresses have.
_DOTS: Final = re.compile(r"[.\u2024\u3002\uff0e\uff61](?=[^\W\d_]{2})")
_ADDRESS: Final = re.compile(r"[/\\@<>]+|:(?=\S)|\bwww\b", re.IGNORECASE)
_PAUSE_MIN: Final = timedelta(minutes=1)
_PAUSE_MAX: Final = timedelta(hours=4)
# After so long nobody tries any more.
GIVEN_UP_AFTER: Final = timedelta(days=5)


def without_links(text: str) -> str:
    """A text of somebody else as one line of which no program that shows letters makes a link.

    >>> without_links("Ada: https://evil.example/x or evil.example")
    'Ada: https evil. example x or evil. example'
    >>> without_links("Dr. J.R.R. Tolkien")
    'Dr. J.R.R. Tolkien'
    """
    return " ".join(_DOTS.sub(". ", _ADDRESS.sub(" ", text)).split())


@dataclass(frozen=True, slots=True)
class WaitingLetter:
    """A letter that waits for its mail server.

    Attributes:
        id: The same in all tries.
        written: When it was put there.
        tries: How many were made.
        due: When the next one is.
    """

    path: Path
    id: str
    written: datetime
    tries: int
    due: datetime

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """The letter of a file; None of a file that is called otherwise."""
        id_, *tried = path.stem.split("~")
        try:
            written = _moment(id_.partition("-")[0])
            tries, due = (int(tried[0]), _moment(tried[1])) if tried else (0, written)
        except (ValueError, IndexError):
            return None
        return cls(path, id_, written, tries, due)

    def read(self) -> EmailMessage:
        """The letter, with an id that servers know it by if it comes twice.

        Raises:
            Unavailable: It cannot be read.
        """
        with disk():
            content = self.path.read_bytes()
        letter = message_from_bytes(content, policy=SMTP.clone(refold_source="all"))
        assert isinstance(letter, EmailMessage)
        letter["Message-ID"] = f"<{self.id}@meterlake.invalid>"
        return letter

    def postpone(self, now: datetime) -> Self:
        """Have it wait for its next try, longer each time.

        Raises:
            Unavailable: The folder cannot be written.
        """
        pause = min(_PAUSE_MIN * 2**self.tries, _PAUSE_MAX)
        due, tries = now + pause, self.tries + 1
        path = self.path.with_name(f"{self.id}~{tries}~{due:{_STAMP}}.eml")
        with disk():
            self.path.replace(path)
        return replace(self, path=path, tries=tries, due=due)

    def remove(self) -> None:
        """Take it out: somebody has it."""
        with disk():
            self.path.unlink(missing_ok=True)

    def set_aside(self) -> Path:
        """Put it into the folder `refused`, where nobody tries it any more.

        Raises:
            Unavailable: The folder cannot be written.
        """
        folder = self.path.parent / "refused"
        make_folder(folder, PRIVATE)
        with disk():
            return self.path.replace(folder / f"{self.id}.eml")


def _moment(text: str) -> datetime:
    return datetime.strptime(text, _STAMP).replace(tzinfo=UTC)


class Outbox:
    """The folder `outbox` of a home; nobody else may read what lies in it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "outbox"

    def due(self, now: datetime) -> Iterator[WaitingLetter]:
        """The letters whose turn it is, the oldest first.

        Raises:
            Unavailable: The folder cannot be read.
        """
        with disk():
            paths = sorted(self.folder.glob("*.eml"))
        for path in paths:
            letter = WaitingLetter.of(path)
            if letter is not None and letter.due <= now:
                yield letter

    def put(self, to: str, subject: str, text: str, now: datetime) -> Path:
        """Write a letter; links in it are secrets.

        Raises:
            Unavailable: The folder cannot be written.
        """
        message = EmailMessage(policy=SMTP.clone(refold_source="all"))
        message["To"] = to
        message["Subject"] = subject
        message["Date"] = now
        message.set_content(text)
        make_folder(self.folder, PRIVATE)
        path = self.folder / f"{now:{_STAMP}}-{uuid4().hex}.eml"
        part = path.with_suffix(".part")
        with disk():
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(message.as_bytes())
                opened.flush()
                os.fsync(opened.fileno())
            part.replace(path)
        return path
