import time

import pytest

from meterlake.pipeline.access import login
from tests.people import PASSWORD


@pytest.mark.long
def test_nobody_takes_as_long_as_somebody():
    login._nobodys.cache_clear()
    stored = login.hash_password(PASSWORD)
    login.matches("warm", None)

    def seconds(hash):
        start = time.perf_counter()
        assert not login.matches("wrong password", hash)
        return time.perf_counter() - start

    known, unknown = (min(seconds(each) for _ in range(3)) for each in (stored, None))
    assert 0.3 < known / unknown < 3
    assert stored.startswith("$argon2id$")
