"""The letters of the outbox are handed to the mail server that the settings name.

A letter leaves the outbox after the server has taken it. Whoever dies in between sends it again,
with the same `Message-ID`.
"""

import logging
from typing import Final

from meterlake.model.errors import Busy, MeterlakeError
from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.stores import Stores
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.mail import (
    GIVEN_UP_AFTER,
    LetterPostponed,
    LetterRefused,
    MailConnection,
    MailServer,
    Outbox,
    WaitingLetter,
)

_log: Final = logging.getLogger("meterlake.letters")


def try_letters(stores: Stores, stop: Stop = lambda: False) -> bool:
    """Send what is due, and log what fails.

    Returns:
        Whether nothing failed.
    """
    try:
        send_letters(stores, stop)
    except Busy:
        return True
    except MeterlakeError as error:
        _log.warning("%s: %s", type(error).__name__, error)
        return False
    except Exception:  # noqa: BLE001 - logged whole
        _log.exception("the letters of the outbox")
        return False
    return True


def send_letters(stores: Stores, stop: Stop = lambda: False) -> int:
    """Hand the letters that are due to the mail server; nothing happens where none is set.

    Returns:
        How many it took.

    Raises:
        Unavailable: The server cannot be reached or refuses us; all letters wait.
        Invalid: The settings name no server, or no sender.
        Busy: Another process sends at the moment.
    """
    server, outbox = MailServer.of(stores.settings), Outbox(stores.home)
    if server is None or not any(outbox.due(stores.now())):
        return 0
    sent = 0
    with hold_lock(
        outbox.folder / "lock", Busy("the outbox", "another process sends letters; try again later")
    ):
        due = list(outbox.due(stores.now()))
        if not due:
            return 0
        with server.connect() as connection:
            for letter in due:
                if stop():
                    break
                sent += _send(stores, connection, letter)
    return sent


def _send(stores: Stores, connection: MailConnection, letter: WaitingLetter) -> bool:
    now = stores.now()
    try:
        connection.send(letter.read())
    except LetterPostponed as error:
        if now - letter.written < GIVEN_UP_AFTER:
            letter.postpone(now)
            _log.warning("letter %s is tried again: %s", letter.id, error)
            return False
        _log.error("letter %s is given up: %s", letter.id, error)
        letter.set_aside()
        return False
    except LetterRefused as error:
        _log.error("letter %s is refused: %s", letter.id, error)
        letter.set_aside()
        return False
    except MeterlakeError:
        raise
    except Exception:  # noqa: BLE001 - logged whole: the letters behind it are others
        _log.exception("letter %s cannot be sent", letter.id)
        letter.set_aside()
        return False
    letter.remove()
    return True
