"""Words of quantities: what gave them, and on which side of a pool they stand."""

from enum import StrEnum
from typing import Final

# What gave a quantity, as its row in the lake says.
SIMPLE: Final = "aggregation"
COMPOUND: Final = "compound"


class Pooled(StrEnum):
    """On which side of a pool an account stands: what children use counts for the parent."""

    PARENT = "parent"
    CHILD = "child"
