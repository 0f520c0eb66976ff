"""Letters to people: files in the home's outbox until a mail server has them.

The name of a file says when its letter was written, and of one that a mail server did not take how
often it was tried and when the next try is due: `20261001T000000-<id>~2~20261001T001000.eml`.
"""

import os
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from meterlake.model.errors import Invalid, Required, Unavailable
from meterlake.settings import Settings
from meterlake.stores.files.durable import PRIVATE, disk, make_folder

_STAMP: Final = "%Y%m%dT%H%M%S"
# What programs that show letters make links of: a dot, or one of its likes, between words, and
# everything that only addresses have.
_DOTS: Final = re.compile(r"[.\u2024\u3002\uff0e\uff61](?=[^\W\d_]{2})")
_ADDRESS: Final = re.compile(r"[/\\@<>]+|:(?=\S)|\bwww\b", re.IGNORECASE)
# Words with a slash and no dot, as in "Juniper Pharma A/S": nothing makes a link of them.
_SLASHED: Final = re.compile(r"[^\W_][\w&'\u2019-]*(/[\w&'\u2019-]+)+[.,;)]?")
_PAUSE_MIN: Final = timedelta(minutes=1)
_PAUSE_MAX: Final = timedelta(hours=4)
# After so long nobody tries any more.
GIVEN_UP_AFTER: Final = timedelta(days=5)
_PORTS: Final = {"smtp": 587, "smtp+starttls": 587, "smtps": 465}
_TIMEOUT_S: Final = 30
_RULE: Final = "it must be smtp://, smtp+starttls:// or smtps://, with user:password@ if needed, a host and a port"
_PERMANENT: Final = range(500, 600)


def without_links(text: str) -> str:
    """A text of somebody else as one line of which no program that shows letters makes a link.

    >>> without_links("Ada: https://evil.example/x or evil.example")
    'Ada: https evil. example x or evil. example'
    >>> without_links("Dr. J.R.R. Tolkien")
    'Dr. J.R.R. Tolkien'
    >>> without_links("Juniper Pharma A/S, c/o evil.example/x")
    'Juniper Pharma A/S, c/o evil. example x'
    """
    parts = (each if _SLASHED.fullmatch(each) else _ADDRESS.sub(" ", each) for each in text.split())
    return " ".join(_DOTS.sub(". ", " ".join(parts)).split())


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


class LetterRefused(Exception):
    """The server does not take this letter, and no further try changes that."""


class LetterPostponed(Exception):
    """The server does not take this letter at the moment."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where letters are handed over.

    Attributes:
        scheme: `smtps` is TLS from the beginning; `smtp+starttls` sends nothing without it; `smtp`
            has it if the server offers it.
        sender: The address that letters are from.
    """

    scheme: str
    host: str
    port: int
    sender: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """The server that the settings name, if they name one.

        Raises:
            Invalid: The URL is none; nothing repeats it, as it may hold a password.
            Required: Nobody is named as the sender.
        """
        if settings.smtp_url is None:
            return None
        try:
            parts = urlsplit(settings.smtp_url.get_secret_value())
            port = parts.port
        except ValueError:
            raise Invalid("smtp_url", "***", _RULE) from None
        if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/"):
            raise Invalid("smtp_url", "***", _RULE)
        if settings.smtp_from is None:
            raise Required("smtp_from")
        user, password = (
            unquote(each) if each else None for each in (parts.username, parts.password)
        )
        port = port or _PORTS[parts.scheme]
        return cls(parts.scheme, parts.hostname, port, settings.smtp_from, user, password)

    @contextmanager
    def connect(self) -> Iterator["MailConnection"]:
        """Sign in to the server.

        Raises:
            Unavailable: It cannot be reached, has no TLS where it must have it, or refuses us.
        """
        try:
            with self._open() as opened:
                self._sign_in(opened)
                yield MailConnection(opened, self.sender)
        except (OSError, smtplib.SMTPException) as error:
            raise Unavailable(f"the mail server {self.host}", _describe(error)) from None

    def _open(self) -> smtplib.SMTP:
        if self.scheme == "smtps":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, timeout=_TIMEOUT_S, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=_TIMEOUT_S)

    def _sign_in(self, opened: smtplib.SMTP) -> None:
        opened.ehlo_or_helo_if_needed()
        is_safe = self.scheme == "smtps"
        if not is_safe and opened.has_extn("starttls"):
            opened.starttls(context=ssl.create_default_context())
            opened.ehlo()
            is_safe = True
        if not is_safe and (
            self.scheme == "smtp+starttls"
            or (self.user is not None and not _is_this_machine(self.host))
        ):
            raise smtplib.SMTPException("it offers no TLS, so nothing is sent to it")
        if self.user is not None:
            opened.login(self.user, self.password or "")


class MailConnection:
    """A connection to a mail server that takes letters."""

    def __init__(self, opened: smtplib.SMTP, sender: str) -> None:
        self._opened = opened
        self._sender = sender

    def send(self, letter: EmailMessage) -> None:
        """Hand over one letter.

        Raises:
            LetterRefused: The server does not take it.
            LetterPostponed: It does not take it now.
        """
        if letter["From"] is None:
            letter["From"] = self._sender
        try:
            self._opened.send_message(letter)
        except smtplib.SMTPRecipientsRefused as error:
            [(code, text), *_] = error.recipients.values()
            raise _verdict(code, text) from None
        except smtplib.SMTPDataError as error:
            raise _verdict(error.smtp_code, error.smtp_error) from None
        except (smtplib.SMTPNotSupportedError, ValueError) as error:
            raise LetterRefused(str(error)) from None


def _verdict(code: int, text: bytes | str) -> Exception:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    kind = LetterRefused if code in _PERMANENT else LetterPostponed
    return kind(f"{code} {' '.join(said.split())}"[:500])


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _describe(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return str(_verdict(error.smtp_code, error.smtp_error))
    if isinstance(error, socket.gaierror):
        return error.strerror or "it has no address"
    return str(error) or type(error).__name__
