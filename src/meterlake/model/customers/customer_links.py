"""Links to the page of one customer: who has one sees that customer's usage and bills, signed in or not."""

from typing import Annotated, Final

from pydantic import Field

from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Flag, Id, Instant, Name, Text

# Where pages of links are, below the server's address.
PAGE_PATH: Final = "/customer"
# What a browser calls the origin of a page; nothing else may stand in a policy.
Origin = Annotated[
    Text, Field(max_length=255, pattern=r"^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$")
]


class CustomerLink(Entity):
    """A link to the page of one customer; it ends by itself, and when somebody revokes it."""

    account_id: Id
    name: Name
    dt_expiry: Instant
    allowed_origins: Annotated[tuple[Origin, ...], Field(max_length=20)] = ()
    revoked: Flag = False
