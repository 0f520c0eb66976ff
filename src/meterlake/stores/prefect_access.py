"""The password of a home's own Prefect server, where that server is, and links that sign in.

Whoever may make deployments there runs programs as its user, so nobody reaches it without.
"""

import html
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from meterlake.stores.files.durable import create_once, make_folder, write_durably

# How Prefect's settings call the password: of a client, and of a server.
CLIENT_VARIABLE: Final = "PREFECT_API_AUTH_STRING"
SERVER_VARIABLE: Final = "PREFECT_SERVER_API_AUTH_STRING"
SIGN_IN: Final = "/sign-in"
_USER: Final = "meterlake"
_BYTES: Final = 32
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Prefect of meterlake</title><p><a href="{link}">Sign in to Prefect</a></p></html>
"""


def server_folder(home: Path) -> Path:
    """Where the server of a home keeps everything."""
    return home.absolute() / "prefect"


def new_password() -> str:
    """A user and a password that nobody has."""
    return f"{_USER}:{secrets.token_urlsafe(_BYTES)}"


def ensure_password(home: Path) -> str:
    """The user and the password of the server of a home; made when first needed.

    Raises:
        Unavailable: It cannot be read or written.
    """
    folder = server_folder(home)
    make_folder(folder, 0o700)
    file = folder / "password"
    create_once(file, f"{new_password()}\n".encode())
    return file.read_text("ascii").strip()


def announce(home: Path, url: str) -> Path:
    """Write down where the server of a home is about to answer.

    Args:
        home: The home folder.
        url: Its origin.

    Returns:
        A page for the browser of who may read the home: it leads to the server, signed in.
    """
    password = ensure_password(home)
    folder = server_folder(home)
    page = folder / "sign-in.html"
    link = html.escape(sign_in_link(url, password))
    for file, text in ((folder / "address", f"{url}\n"), (page, _PAGE.format(link=link))):
        with write_durably(file) as part:
            part.chmod(0o600)
            part.write_text(text)
    return page


def password_for(home: Path, api: str) -> str | None:
    """The password for an API of Prefect, if that is the one of the home's own server.

    Nobody else's server is told it.
    """
    folder = server_folder(home)
    with suppress(OSError):
        if (folder / "address").read_text().strip() == api.rstrip("/").removesuffix("/api"):
            return (folder / "password").read_text("ascii").strip()
    return None


def sign_in_link(url: str, password: str) -> str:
    """A link that signs a browser in; what stands after # is never sent to a server."""
    return f"{url}{SIGN_IN}#{quote(password, safe='')}"


def is_own_connection(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection over IPv4 comes from a process of our own user, as Linux knows it.

    Elsewhere nobody is known.

    Args:
        client: The address and the port of who asks.
        server: Ours.
    """
    wanted = [_hexadecimal(*client), _hexadecimal(*server)]
    try:
        rows = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    except OSError:
        return False
    fields = (row.split() for row in rows)
    return any(row[1:3] == wanted and int(row[7]) == os.geteuid() for row in fields)


def _hexadecimal(address: str, port: int) -> str:
    """An address as /proc/net/tcp has it: the bytes in the order of the machine."""
    try:
        number = int.from_bytes(bytes(map(int, address.split("."))), "little")
    except ValueError:
        return ""
    return f"{number:08X}:{port:04X}"
