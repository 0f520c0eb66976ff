"""Secrets at rest: encrypted with one key that lies in the home, or comes from the settings."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from meterlake.model.errors import Invalid, Required, Unavailable
from meterlake.settings import Settings, variable
from meterlake.stores.files.durable import create_once, disk, make_folder
from meterlake.stores.home_settings import key_elsewhere

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

FILE_NAME: Final = "secret.key"


class Secrets:
    """Encrypts what must be read again: signing keys, credentials of webhooks and integrations.

    What is only compared (API secrets, tokens, passwords) is hashed instead and never comes here.
    """

    def __init__(self, file: Path, key: str | None = None) -> None:
        self._file = file
        self._given = key

    @classmethod
    def of(cls, settings: Settings) -> "Secrets":
        """The secrets of a home."""
        given = settings.secret_key
        key = None if given is None else given.get_secret_value()
        return cls(settings.home.absolute() / FILE_NAME, key)

    def encrypt(self, text: str) -> str:
        """Make a text unreadable without the key.

        Raises:
            Invalid: The key of the settings or of the home is none.
            Required: The home's key comes from a variable that this process lacks.
            Unavailable: The key cannot be read or written.
        """
        return self._fernet.encrypt(text.encode()).decode()

    def decrypt(self, token: str) -> str:
        """Make it readable again.

        Raises:
            Unavailable: It was encrypted with another key, or was changed.
        """
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - few commands need it

        try:
            return self._fernet.decrypt(token.encode()).decode()
        except InvalidToken:
            detail = "it was encrypted with another key than the one of this home"
            raise Unavailable(
                "a stored secret", detail, "give the home its key back, or store the secret again"
            ) from None

    @cached_property
    def _fernet(self) -> "Fernet":
        from cryptography.fernet import Fernet  # noqa: PLC0415 - few commands need it

        key = self._given if self._given is not None else _key_of(self._file)
        try:
            return Fernet(key)
        except ValueError:
            rule = "it must be 32 random bytes in URL-safe Base64"
            raise Invalid("secret key", "***", rule) from None


def _key_of(file: Path) -> str:
    with disk():
        if not file.exists():
            if key_elsewhere(file.parent):
                raise Required(variable("secret_key"))
            from cryptography.fernet import Fernet  # noqa: PLC0415 - few commands need it

            make_folder(file.parent)
            create_once(file, Fernet.generate_key() + b"\n")
        return file.read_text().strip()
