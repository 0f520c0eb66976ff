"""Inboxes that people name over HTTP: where they may lie, whether they answer, what waits in them.

A folder that somebody names is read, and emptied, with the rights of the server. So it lies below
one that whoever runs the server allows. A bucket is reached with the server's credentials: not
those of the home itself, in which the files of all organizations lie.
"""

import re
from itertools import islice
from pathlib import Path
from typing import Any, Final

from meterlake.model.errors import Invalid, MeterlakeError, NotFound
from meterlake.pipeline.ingest.drop_folder import InboxPlace, drop_folder
from meterlake.pipeline.ingest.inbox import add_inbox, inbox_name, remove_inbox
from meterlake.stores import Organization
from meterlake.stores.state.ingest.inboxes import Afterwards, Inbox, Inboxes

_BUCKETS: Final = ("s3://", "gs://")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/|\Z)")
# Waiting objects that a check lists.
_SHOWN: Final = 20


def add_named_inbox(
    organization: Organization, url: str, afterwards: Afterwards, author: str
) -> Inbox:
    """Add an inbox, or change what becomes of its objects.

    Raises:
        Invalid: It lies where no inbox may be named, or see `add_inbox`.
    """
    return add_inbox(organization, permitted_place(organization, url), afterwards, author)


def remove_named_inbox(organization: Organization, id_: str) -> Inbox:
    """Do not look into an inbox any more; its objects stay where they are.

    Raises:
        NotFound: There is none.
    """
    found = [each for each in Inboxes(organization.state).all(organization.id) if each.id == id_]
    if not found:
        raise NotFound("inbox", id_)
    remove_inbox(organization, found[0].url)
    return found[0]


def check_named_inbox(organization: Organization, url: str) -> dict[str, Any]:
    """Look whether an inbox answers, and what waits in it; nothing is taken.

    Raises:
        Invalid: It lies where no inbox may be named.
    """
    return check_inbox(organization, permitted_place(organization, url))


def check_inbox(organization: Organization, url: str) -> dict[str, Any]:
    """Look whether a bucket or a folder answers, and what lies in it; nothing is taken.

    Raises:
        Invalid: It is no URL of a bucket and no folder.
    """
    url = inbox_name(url)
    place = InboxPlace.at(url, organization.stores)
    try:
        place.expect()
        found = [each.key for each in islice(place.arrivals(), _SHOWN + 1)]
    except MeterlakeError as error:
        return {"url": url, "answers": False, "problem": str(error), "objects": [], "more": False}
    return {"url": url, "answers": True, "objects": found[:_SHOWN], "more": len(found) > _SHOWN}


def permitted_place(organization: Organization, url: str) -> str:
    """The name of an inbox that people may name over HTTP; those that are there already they may.

    Raises:
        Invalid: It is neither of a bucket that is not the home's own, nor below a folder that
            the server allows.
    """
    if url in {each.url for each in Inboxes(organization.state).all(organization.id)}:
        return url  # Whoever runs the server has added it by a command.
    if url.startswith(_BUCKETS):
        if not _BUCKET.match(url.partition("://")[2]):
            # It may hold a secret, which no answer repeats.
            rule = "it must have the name of a bucket behind ://, and no credentials: the server has them"
            raise Invalid("url", url[: len("s3://")] + "…", rule)
        return _other_bucket(organization, inbox_name(url))
    if "://" in url:
        raise Invalid("url", url, "it must begin with s3:// or gs://, or be the path of a folder")
    # A link may lead out of the folder that is allowed.
    folder, own = Path(url).resolve(), drop_folder(organization.stores, organization.code)
    listed = map(Path, organization.settings.inbox_folders)
    roots = [each.resolve() for each in (own.root, *listed)]
    taken = (own.inbox, own.claimed, own.done, own.failed, own.mappings)
    # `move` writes beside it: the folder that is allowed is no inbox itself.
    allowed = Path(url).is_absolute() and any(each in folder.parents for each in roots)
    if not allowed or any(folder.is_relative_to(each.resolve()) for each in taken):
        rule = (
            "it must be an s3:// or gs:// address, or a folder of its own below one that the server"
            " allows; who runs the server lists these in METERLAKE_INBOX_FOLDERS"
        )
        raise Invalid("url", url, rule)
    return str(folder)


def _other_bucket(organization: Organization, place: str) -> str:
    settings, parent = organization.settings, place.rpartition("/")[0]
    reached = (place, f"{parent}/done", f"{parent}/failed")
    for own in filter(None, (settings.lake, settings.objects)):
        root = own.rstrip("/")
        for each in reached:
            if f"{each}/".startswith(f"{root}/") or f"{root}/".startswith(f"{each}/"):
                rule = "it must be no place of the home's own lakes and objects; choose another"
                raise Invalid("url", place, rule)
    return place
