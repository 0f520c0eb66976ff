"""Letters to people: files in the home's outbox, which whoever runs the home hands to a mail server."""

import os
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from uuid import uuid4

from meterlake.stores.files.durable import PRIVATE, disk, make_folder


class Outbox:
    """The folder `outbox` of a home; nobody else may read what lies in it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "outbox"

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
        path = self.folder / f"{now:%Y%m%dT%H%M%S}-{uuid4().hex}.eml"
        part = path.with_suffix(".part")
        with disk():
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(message.as_bytes())
                opened.flush()
                os.fsync(opened.fileno())
            part.replace(path)
        return path
