"""Which stages of features an organization has enabled."""

from meterlake.model.entity import Entity
from meterlake.model.fields import Flag


class Features(Entity):
    """Resources in beta and preview are refused until their stage is enabled here."""

    beta: Flag = False
    preview: Flag = False
