"""Destinations of exports, and what tests ask of an export."""

import hashlib
import itertools
from typing import Any

from meterlake.model.configuration.exports import ExportDestination
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.stores.objects import ObjectStore
from tests.doubles.clouds import ACCOUNT, ROLE
from tests.doubles.homes import Home

S3 = {"iamRoleArn": ROLE}
GCS = {
    "projectNumber": "4711",
    "poolId": "ours",
    "providerId": "them",
    "serviceAccountEmail": ACCOUNT,
}
LOCAL = {"destinationType": "LOCAL"}
_numbers = itertools.count()


def destination(home: Home, **content: Any) -> str:
    """Make a destination; its id."""
    code = f"theirs-{next(_numbers)}"
    document = {"name": "Theirs", "code": code, "bucketName": "theirs", **content}
    with home.organization.transaction("test") as transaction:
        return transaction.create(ExportDestination.from_wire(document)).id


def configured(home: Home, **settings: Any) -> None:
    """Change settings for the rest of the test."""
    settings = {"export_retry_seconds": 0.01, **settings}
    home.stores.settings = home.stores.settings.model_copy(update=settings)


def usage(*ids: str) -> ExportRequest:
    """All usage as CSV, to some destinations."""
    return ExportRequest(source=Source.USAGE, format=Format.CSV, destination_ids=ids)


def hashes(objects: ObjectStore, manifest: dict[str, Any]) -> list[bool]:
    """Whether what lies under the keys of a manifest is what it says."""
    return [
        hashlib.sha256(objects.get(file["key"])).hexdigest() == file["sha256"]
        for file in manifest["files"]
    ]
