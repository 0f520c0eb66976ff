"""Immutable bytes by key: one small interface over a local folder, S3 and GCS.

A put is atomic: a reader sees the whole object or none. With `create_only` it is conditional too:
the first content wins, the same content again is a success (so a put can always be repeated, also
when the answer to it was lost), other content is refused.
"""

from meterlake.stores.objects.base import ObjectInfo, ObjectStore, SignedPut
from meterlake.stores.objects.destination import missing_for, open_destination, open_objects

__all__ = [
    "ObjectInfo",
    "ObjectStore",
    "SignedPut",
    "missing_for",
    "open_destination",
    "open_objects",
]
