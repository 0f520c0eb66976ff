import multiprocessing
import os
import stat

import pytest

from meterlake.api.server import limits as module
from meterlake.api.server.limits import Buckets, Limit, RateLimits, network
from meterlake.model.errors import TooMany
from tests.homes import settings

FIVE = Limit("five", 0.5, 5)


class Seconds:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def seconds():
    return Seconds()


@pytest.fixture
def buckets(tmp_path, seconds):
    made = Buckets(tmp_path / "limits.bin", seconds)
    yield made
    made.close()


def test_a_burst_is_let_through_and_then_as_much_as_flows_in(buckets, seconds):
    assert [buckets.take(FIVE, "a") for _ in range(5)] == [0] * 5
    assert buckets.take(FIVE, "a") == pytest.approx(2)
    seconds.now += 1.5
    assert buckets.take(FIVE, "a") == pytest.approx(0.5)
    seconds.now += 0.5
    assert buckets.take(FIVE, "a") == 0
    assert buckets.take(FIVE, "a") == pytest.approx(2)


def test_a_long_rest_fills_the_bucket_and_no_more(buckets, seconds):
    buckets.take(FIVE, "a")
    seconds.now += 1_000_000

    assert [buckets.take(FIVE, "a") > 0 for _ in range(6)] == [False] * 5 + [True]


def test_others_are_not_affected(buckets):
    for _ in range(9):
        buckets.take(FIVE, "a")

    assert buckets.take(FIVE, "b") == 0
    assert buckets.take(Limit("another", 0.5, 5), "a") == 0


def test_a_clock_that_starts_anew_gives_and_takes_nothing(buckets, seconds):
    for _ in range(5):
        buckets.take(FIVE, "a")
    seconds.now = 3.0

    assert buckets.take(FIVE, "a") == pytest.approx(2)
    seconds.now += 2
    assert buckets.take(FIVE, "a") == 0


@pytest.fixture
def one_set(tmp_path, seconds, monkeypatch):
    """Buckets of which there is room for eight."""
    monkeypatch.setattr(module, "_SETS", 1)
    made = Buckets(tmp_path / "one.bin", seconds)
    yield made
    made.close()


def test_a_full_set_forgets_the_one_that_is_full_soonest(one_set, seconds):
    for name in "abcdefgh":
        for _ in range(5):
            one_set.take(FIVE, name)
        seconds.now += 0.001
    assert one_set.take(FIVE, "i") == 0

    assert one_set.take(FIVE, "b") > 0
    assert one_set.take(FIVE, "a") == 0


def test_whoever_used_up_a_bucket_does_not_get_it_back_from_others(one_set, seconds):
    for _ in range(5):
        one_set.take(FIVE, "guesses")
    for number in range(1000):
        one_set.take(FIVE, f"other {number}")
        seconds.now += 0.001

    assert one_set.take(FIVE, "guesses") > 0


def test_what_another_clock_counted_gives_way_first(one_set, seconds):
    for name in "abcdefgh":
        for _ in range(5):
            one_set.take(FIVE, name)
    seconds.now = 3.0
    for _ in range(5):
        one_set.take(FIVE, "guesses")
    for number in range(7):
        one_set.take(FIVE, f"other {number}")

    assert one_set.take(FIVE, "guesses") > 0


def _set_of(buckets, key):
    """Which set a bucket is in, found as an attacker cannot: in the file."""
    size, before = module._SET_BYTES, bytes(buckets._memory)
    buckets.take(FIVE, key)
    after = bytes(buckets._memory)
    starts = range(0, len(before), size)
    return next(i for i in starts if before[i : i + size] != after[i : i + size]) // size


def test_nobody_can_choose_addresses_that_share_a_set_with_another(tmp_path, seconds):
    """Addresses that meet in one home do not in the next: what is guessed here fails there."""
    homes = [Buckets(tmp_path / name, seconds) for name in ("one.bin", "two.bin")]
    names = [f"10.0.{number // 250}.{number % 250}" for number in range(100)]
    places = [[_set_of(home, name) for name in names] for home in homes]
    again = Buckets(tmp_path / "one.bin", seconds)
    try:
        # 100 sets of 4,096 in two homes: about two hundredths are equal by chance.
        assert sum(one == two for one, two in zip(*places, strict=True)) < 10
        # Whoever opens the same file later knows the same buckets.
        assert again.take(FIVE, names[0]) == 0
        assert [again.take(FIVE, names[0]) > 0 for _ in range(4)] == [False, False, False, True]
    finally:
        for each in (*homes, again):
            each.close()


def test_a_file_of_before_has_nothing_that_stays(tmp_path, seconds):
    path = tmp_path / "limits.bin"
    path.write_bytes(b"\x41" * (1 << 20))
    buckets = Buckets(path, seconds)

    assert not any(buckets._memory[: 1 << 20])
    assert buckets.take(FIVE, "a") == 0
    buckets.close()


def _take_many(path, count, answers):
    buckets = Buckets(path, lambda: 1.0)
    answers.put(sum(buckets.take(Limit("x", 1, 1000), "a") == 0 for _ in range(count)))


@pytest.mark.slow
def test_processes_share_a_bucket_exactly(tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [
        context.Process(target=_take_many, args=(tmp_path / "limits.bin", 800, answers))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    let_through = [answers.get(timeout=180) for _ in workers]
    for worker in workers:
        worker.join()

    assert sum(let_through) == 1000


@pytest.mark.usefixtures("buckets")
def test_the_file_is_small_and_belongs_to_its_owner(tmp_path):
    found = (tmp_path / "limits.bin").stat()

    assert found.st_size == (1 << 20) + 16
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.geteuid()


def limits(tmp_path, seconds, **changes):
    return RateLimits(settings(tmp_path, **changes), tmp_path, seconds)


def test_only_the_explorer_is_limited_by_default(tmp_path, seconds):
    found = limits(tmp_path, seconds)
    for _ in range(200):
        found.check_organization("config", "o")
        found.check_address("config", "1.2.3.4")
        found.check_organization("ingest", "o")
        found.check_address("ingest", "1.2.3.4")
    for _ in range(10):
        found.check_organization("explorer", "o")
    for _ in range(20):
        found.check_organization("query", "o")

    for name, wait in (("explorer", 1), ("query", 1)):
        with pytest.raises(TooMany) as error:
            found.check_organization(name, "o")
        assert error.value.retry_after == wait
    found.check_organization("explorer", "another")


@pytest.mark.parametrize(("name", "most"), [("config", 20_000), ("ingest", 5_000)])
def test_the_documented_numbers_hold(tmp_path, seconds, name, most):
    found = limits(tmp_path, seconds, limit_config=True, limit_ingest=True)
    for _ in range(50):
        found.check_organization(name, "o")
    with pytest.raises(TooMany):
        found.check_organization(name, "o")
    seconds.now += 1
    for _ in range(50):
        found.check_organization(name, "o")
    for _ in range(most):
        found.check_address(name, "1.2.3.4")
    with pytest.raises(TooMany) as error:
        found.check_address(name, "1.2.3.4")
    assert error.value.retry_after >= 1
    found.check_address(name, "1.2.3.5")


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("unknown", "unknown"),
    ],
)
def test_one_customer_is_one_address(address, same):
    assert network(address) == network(same)


def test_neighbours_are_several_addresses():
    assert (
        len({network(each) for each in ("1.2.3.4", "1.2.3.5", "2001:db8::1", "2001:db9::1")}) == 4
    )
