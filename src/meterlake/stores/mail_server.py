"""The mail server that letters are handed to: SMTP, with TLS wherever the server has it."""

import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from meterlake.model.errors import Invalid, Required, Unavailable
from meterlake.settings import Settings

_PORTS: Final = {"smtp": 587, "smtp+starttls": 587, "smtps": 465}
_TIMEOUT_S: Final = 30
_RULE: Final = "it must be smtp://, smtp+starttls:// or smtps://, with user:password@ if needed, a host and a port"
_PERMANENT: Final = range(500, 600)


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
        if not is_safe and (self.scheme == "smtp+starttls" or self._would_show_password()):
            raise smtplib.SMTPException("it offers no TLS, so nothing is sent to it")
        if self.user is not None:
            opened.login(self.user, self.password or "")

    def _would_show_password(self) -> bool:
        return self.user is not None and not _is_this_machine(self.host)


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
