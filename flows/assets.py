"""What runs make, as assets of Prefect: per organization and period, and what each is made from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from prefect import get_run_logger, tags
from prefect.assets import Asset, AssetProperties, add_asset_metadata, materialize
from prefect.cache_policies import NO_CACHE

from flows.labels import tag_of

AssetKind: TypeAlias = Literal["measurements", "quantities", "bills", "exports", "published"]
# Where there is no period: everything that there is.
ALL: Final = "all"
# What each is made from; of the same organization and period.
LINEAGE: Final[Mapping[AssetKind, tuple[AssetKind, ...]]] = {
    "measurements": (),
    "quantities": ("measurements",),
    "bills": ("quantities",),
    "exports": ("measurements", "quantities", "bills"),
    "published": ("measurements", "quantities", "bills"),
}
_BANNED: Final = re.compile(r"[^A-Za-z0-9._~-]")


@dataclass(frozen=True, slots=True)
class MadeAsset:
    """One asset as a run made it.

    Attributes:
        kind: Which one.
        period: Such as `2026-10`.
        metadata: Snapshot, rows and control totals.
        made_from: The periods of what it is made from; its own if empty.
    """

    kind: AssetKind
    period: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    made_from: tuple[str, ...] = ()


def asset_key(org: str, kind: AssetKind, period: str) -> str:
    """The key of an asset.

    >>> asset_key("acme", "bills", "2026-10")
    'meterlake://acme/2026-10/bills'
    """
    return f"meterlake://{_BANNED.sub('-', org)}/{_BANNED.sub('-', period)}/{kind}"


def record_assets(org: str, made: Sequence[MadeAsset]) -> None:
    """Tell Prefect what a run made of an organization; the work does not depend on it."""
    for each in made:
        try:
            _record(org, each)
        except Exception as error:  # noqa: BLE001 - logged; what was made is there all the same
            get_run_logger().warning("%s is no asset: %s", each.kind, error)


def _upstream(made: MadeAsset) -> tuple[str, ...]:
    if made.made_from or made.period == ALL:
        return made.made_from
    return (made.period,)


def _record(org: str, made: MadeAsset) -> None:
    asset = Asset(
        key=asset_key(org, made.kind, made.period),
        properties=AssetProperties(name=f"{made.kind} of {org}, {made.period}"),
    )

    def note() -> None:
        add_asset_metadata(asset, dict(made.metadata))

    task = materialize(
        asset,
        by="meterlake",
        name="record an asset",
        task_run_name=f"{made.kind} of {org}, {made.period}",
        asset_deps=[
            asset_key(org, each, period)
            for period in _upstream(made)
            for each in LINEAGE[made.kind]
        ],
        cache_policy=NO_CACHE,
    )(note)
    with tags(tag_of(org)):
        task()
