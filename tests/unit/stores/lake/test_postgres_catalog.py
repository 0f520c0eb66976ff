"""What a catalog in PostgreSQL has to be; the rest is tested with a server."""

import pytest

from meterlake.model.errors import Invalid
from meterlake.stores.lake.backends.postgres_catalog import check_language, parse_catalog_url


@pytest.mark.parametrize(
    ("language", "fits"),
    [("C", True), ("en_US.UTF-8", True), ("", True), ("de_DE.UTF-8", False), ("fr_FR", False)],
)
def test_a_server_that_speaks_another_language_is_refused(language, fits):
    if fits:
        check_language(language)
        return
    with pytest.raises(Invalid, match="lc_messages"):
        check_language(language)


@pytest.mark.parametrize("url", ["sqlite:///x", "nothing", "mysql://a:secret@b/c"])
def test_a_catalog_is_a_database_of_postgresql(url):
    with pytest.raises(Invalid, match="postgresql") as caught:
        parse_catalog_url(url)
    assert "secret" not in str(caught.value)
