"""Which stages of features an organization has enabled."""

from typing import Final

from meterlake.model.catalog.features import Features
from meterlake.model.resources.resource import SINGLETON, Resource

ROWS: Final = (
    Resource(
        name="features",
        path="features",
        entity=Features,
        singleton=True,
        verbs=SINGLETON,
        schema="Features",
        permission="features",
        operations={"update": "UpdateFeatures"},
    ),
)
