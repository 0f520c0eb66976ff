"""Which stages of features an organization has enabled."""

from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Flag


class Features(Entity):
    """The stages, beta and preview, of which you use resources; you cannot use them before."""

    beta: Flag = False
    preview: Flag = False
