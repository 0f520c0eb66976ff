"""Prices of many plans changed at once: proposed, looked at, and applied all or none."""

from meterlake.model.catalog.plans import PriceScale
from meterlake.model.errors import Conflict
from meterlake.pipeline.config.apply_configuration import ApplyOptions, apply
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.stages.config.scale_prices import ScaledPrices, scale_prices
from meterlake.stores import Organization
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.state.core.stored_configuration import StoredConfiguration


def propose_prices(organization: Organization, scale: PriceScale) -> ScaledPrices:
    """What prices would be; nothing is written.

    Raises:
        Invalid: A plan does not exist.
    """
    with organization.reading() as reader:
        return scale_prices(StoredConfiguration(reader), scale)


def apply_prices(
    organization: Organization, author: str, scale: PriceScale, review: str
) -> ScaledPrices:
    """Change prices as somebody has looked at them.

    Args:
        organization: The organization.
        author: Who does it.
        scale: How prices change.
        review: That of the proposal that was looked at.

    Raises:
        Conflict: A price has changed since.
        Invalid: A plan does not exist, or the new prices break a rule.
    """
    found = propose_prices(organization, scale)
    if found.review != review:
        raise Conflict("the prices have changed since you looked at them; look again")
    settings = organization.settings
    options = ApplyOptions(
        limits=limits_of(settings),
        addresses=address_policy(settings),
        versions=found.versions,
    )
    apply(organization.state, organization.id, found.documents(), author, options)
    return found
