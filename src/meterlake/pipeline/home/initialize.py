"""A new organization with everything it needs on disk: the verb `initialize`."""

from meterlake.pipeline.home.setup import Initialized, init_home
from meterlake.pipeline.ingest.drop_folder import DropFolder
from meterlake.settings import Settings
from meterlake.stores.files.durable import make_private
from meterlake.stores.home_settings import agree_on_settings
from meterlake.stores.lake.backends.location import check_new_lake, open_lake


def initialize(settings: Settings, name: str) -> Initialized:
    """Create an organization with its lake and its drop folder, and the home if there is none.

    Raises:
        Invalid: The name is empty or too long.
        Required: The lake would be in a bucket without a catalog in PostgreSQL.
        Conflict: There is an organization of that name, or the home has another setting.
        Unavailable: The home cannot be written.
    """
    settings = agree_on_settings(settings)
    check_new_lake(settings)
    make_private(group_read=settings.group_read)
    home = settings.home.absolute()

    def make_lake(org_id: str) -> None:
        lake = open_lake(settings, org_id)
        try:
            lake.create()
        finally:
            lake.close()

    made = init_home(settings, name, make_lake)
    DropFolder(home / "drop" / made.org_code).create()
    agree_on_settings(settings)  # Now there is a home to write them into.
    return made
