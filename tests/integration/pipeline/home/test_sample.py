"""The sample organization in a home: configured, its files dropped in the order they came."""

from pathlib import Path

import pytest

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict
from meterlake.pipeline.home.sample import create_sample
from meterlake.pipeline.ingest.drop_folder import drop_folder, resting_files
from meterlake.settings import Settings
from meterlake.stores import open_stores
from sample_data import MAPPINGS, MEASUREMENTS


@pytest.mark.long
def test_the_sample_is_configured_and_its_files_are_at_rest(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", _env_file=None)

    code = create_sample(settings)

    with open_stores(settings) as stores:
        organization = stores.find_organization(code)
        folder = drop_folder(stores, code)
        assert len(list(organization.configuration().all(Account))) >= 40
    names = [path.name for path in resting_files(folder.inbox, 2)]
    assert names == sorted(path.name for path in MEASUREMENTS.iterdir())
    assert {path.name for path in folder.mappings.iterdir()} == {
        path.name for path in MAPPINGS.iterdir()
    }


@pytest.mark.long
def test_a_home_has_the_sample_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", _env_file=None)
    create_sample(settings)

    with pytest.raises(Conflict):
        create_sample(settings)
