"""The settings of an organization, replaced as a request does it."""

from meterlake.model.errors import Required
from meterlake.model.organization import OrganizationConfig
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import Document, Place
from meterlake.stores import Stores


def update(stores: Stores, org_id: str, author: str, document: Document) -> Document:
    """Replace the settings; files may leave out what a request has to say.

    Raises:
        Required: There is no version, or one of the fields that a request needs is absent.
        Invalid: A field or a rule is broken.
        StaleVersion: Someone updated it since the caller read it.
    """
    for name in OrganizationConfig.required_in_requests:
        if document.get(name) is None:
            raise Required(name)
    place = Place(BY_ENTITY[OrganizationConfig], {})
    return entities.update(stores, org_id, author, place, document)
