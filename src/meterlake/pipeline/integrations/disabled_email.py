"""Letters to the people whom an integration names, when nothing is sent for it any more."""

from collections.abc import Iterator
from typing import Any, Final

from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.values.entity import Record
from meterlake.pipeline.config.webhook_addresses import PEOPLE
from meterlake.stores import Stores
from meterlake.stores.mail import Outbox, without_links
from meterlake.stores.state import Reader
from meterlake.stores.state.access.people import users
from meterlake.stores.state.core.pages import Page

_SUBJECT: Final = "An integration of meterlake was disabled"
_TEXT: Final = """Hello {person},

meterlake sends nothing to {name} any more:

{reason}

Runs that wait for it, and new ones, are not sent until somebody switches it on again.
Then they can be replayed.
"""
_PEOPLE_MAX: Final = 100


def write_letters(stores: Stores, reader: Reader, destination_id: str, name: str, why: str) -> None:
    """Put a letter to each of the people into the outbox of the home.

    Raises:
        Unavailable: The outbox cannot be written.
    """
    ids = sorted({id_ for each in _configs(reader, destination_id) for id_ in _people(each)})
    if not ids:
        return
    now = stores.now()
    for user in users(reader, Page(_PEOPLE_MAX), ids[:_PEOPLE_MAX])[0]:
        if user.has_access(now):
            # All three are words of others, the reason those of a receiver.
            words = {"person": user.person.first_name, "name": name, "reason": why}
            text = _TEXT.format(**{key: without_links(each) for key, each in words.items()})
            Outbox(stores.home).put(user.person.email, _SUBJECT, text, now)


def _configs(reader: Reader, destination_id: str) -> Iterator[Record[IntegrationConfig]]:
    for each in reader.all(IntegrationConfig):
        if destination_id in {each.id, each.entity.destination_id}:
            yield each


def _people(config: Record[IntegrationConfig]) -> Iterator[str]:
    given: Any = config.entity.config_data.get(PEOPLE)
    if isinstance(given, list):
        yield from (each for each in given if isinstance(each, str))
