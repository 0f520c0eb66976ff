"""The pages of lookup tables' revisions: drafts, rows, and the one that calculations read."""

import re

import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from tests.console_world import CONSOLE, a_console
from tests.homes import configure
from tests.people import allow

TABLES = f"{CONSOLE}/catalogue/lookupTables"
ATTACK = "<script>alert(1)</script>"
COLUMNS = {
    "name": "May",
    "fields.0.type": "STRING",
    "fields.0.name": "region",
    "fields.1.type": "NUMBER",
    "fields.1.name": "rate",
    "keys": "region",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, a_console(tmp_path_factory.mktemp("l")) as found:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        tables = [{"code": "regions", "name": "Regions"}]
        configure(found.home.organization, features={"beta": True})
        configure(found.home.organization, lookupTables=tables)
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


@pytest.mark.long
def test_a_revision_is_made_written_published_and_copied(world):
    ada = world.browser("ada@example.com")
    ada.go(TABLES)
    ada.go(re.search(rf'href="({TABLES}/[0-9a-f-]{{36}})"', ada.page.text)[1])
    assert "No revisions yet" in ada.text
    ada.go(f"{ada.path}/revisions/new")
    page = ada.send(COLUMNS)
    assert "You created the revision May." in page
    assert "Draft" in page

    assert "line 2: it has 1 value for 2 columns" in ada.press("write", rows="region,rate\neu")
    assert "rate" in ada.press("write", rows="region,rate\neu,many")
    assert "You wrote the rows." in ada.press("write", rows=f"region,rate\neu,2.50\n{ATTACK},3")
    assert ATTACK not in ada.page.text
    assert "eu 2.5" in ada.text
    file = ada.client.get(f"{ada.path}/rows.csv").text
    assert "eu,2.5" in file

    assert "You published the revision." in ada.press("publish")
    assert not any(map(ada.offers, ("write", "publish", "empty")))
    published = ada.path
    assert "This is the copy, a draft." in ada.press("copy")
    assert "eu 2.5" in ada.text
    assert "You emptied the draft." in ada.press("empty")
    ada.go(published.partition("/revisions")[0])
    assert re.search(r"May Published 2 region, rate .* May Copy Draft 0", ada.text)

    reader = world.browser("reader@example.com")
    assert "eu 2.5" in reader.go(published)
    assert 'name="action"' not in reader.page.text
