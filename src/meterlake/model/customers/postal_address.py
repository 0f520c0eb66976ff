"""The postal address of an account."""

from typing import Annotated

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Text


class Address(Value):
    """A postal address."""

    address_line1: Annotated[Text, Field(max_length=50)] | None = None
    address_line2: Annotated[Text, Field(max_length=50)] | None = None
    address_line3: Annotated[Text, Field(max_length=200)] | None = None
    address_line4: Annotated[Text, Field(max_length=200)] | None = None
    locality: Annotated[Text, Field(max_length=100)] | None = None
    region: Annotated[Text, Field(max_length=50)] | None = None
    post_code: Annotated[Text, Field(max_length=20)] | None = None
    country: Annotated[Text, Field(max_length=100)] | None = None
