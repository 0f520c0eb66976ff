"""`last` and `current` follow the organization's calendar, not the server's."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Invalid
from meterlake.pipeline.config.months import month_named
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from tests.organizations import Clock, new_organization, open_new


def _in_zone(stores: Stores, timezone: str) -> str:
    org_id = new_organization(stores.state)
    with stores.state.transaction(org_id, "test") as transaction:
        record = transaction.configuration().single(OrganizationConfig)
        entity = record.entity.model_copy(update={"timezone": timezone})
        transaction.update(record.id, record.version, entity)
    return org_id


@pytest.mark.parametrize(
    ("timezone", "now", "current", "last"),
    [
        ("UTC", datetime(2026, 11, 1, tzinfo=UTC), "2026-11", "2026-10"),
        ("America/New_York", datetime(2026, 11, 1, tzinfo=UTC), "2026-10", "2026-09"),
        ("Europe/Berlin", datetime(2026, 12, 31, 23, tzinfo=UTC), "2027-01", "2026-12"),
        ("UTC", datetime(2026, 3, 31, tzinfo=UTC), "2026-03", "2026-02"),
    ],
)
def test_the_month_is_that_of_the_organization_s_calendar(
    tmp_path: Path, timezone: str, now: datetime, current: str, last: str
) -> None:
    clock = Clock()
    clock.time = now
    settings = Settings(home=tmp_path, _env_file=None)
    with open_new(settings, clock) as stores:
        org_id = _in_zone(stores, timezone)
        organization = stores.organization(org_id)
        assert str(month_named(organization, "current")) == current
        assert str(month_named(organization, "last")) == last


def test_a_month_by_number_is_itself_and_anything_else_is_refused(tmp_path: Path) -> None:
    with open_stores(Settings(home=tmp_path, _env_file=None), create=True) as stores:
        assert str(month_named(stores.organization("any"), "2026-10")) == "2026-10"
        with pytest.raises(Invalid):
            month_named(stores.organization("any"), "yesterday")
