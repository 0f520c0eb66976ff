"""Which measurements of a source are repeats, and which contradict what is known, as SQL text.

A uid that the lake knows is judged against the lake, else against its first row in the source:
equal content is a repeat, other content is a contradiction (DuplicateUid).

Which uids of a source came before, roughly: a Bloom filter over their hashes, in constant memory.

A uid that came before is always recognized, a new one is now and then mistaken for one. So nothing
may follow from it but where a measurement is put for the moment.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

# Every measurement that must not be stored. {suspects}: hashes that repeat within the source or
# may be known; {staged}: the source's uid rows; the lake is attached as `lake`.
DROPPED: Final = """
WITH suspect AS (
    SELECT s.* FROM {staged} s SEMI JOIN {suspects} h USING (uid_hash)
), known AS (
    SELECT u.uid, u.content_hash AS known_hash
    FROM lake.uid_index u SEMI JOIN {suspects} h USING (uid_hash)
), judged AS (
    SELECT s.row, s.part, s.uid, s.meter_id, s.content_hash, k.known_hash,
        first_value(s.content_hash) OVER same AS first_hash,
        row_number() OVER same AS nth
    FROM suspect s LEFT JOIN known k USING (uid)
    WINDOW same AS (PARTITION BY s.uid ORDER BY s.row, s.part)
)
SELECT row, part, uid, meter_id, content_hash = coalesce(known_hash, first_hash) AS repeat
FROM judged
WHERE known_hash IS NOT NULL OR nth > 1
"""

# How many rows of a staged file are among them, and what is left of it.
GOING: Final = "SELECT count(*) FROM {staged} f SEMI JOIN {dropped} d USING (row, part)"
KEPT: Final = "SELECT f.* FROM {staged} f ANTI JOIN {dropped} d USING (row, part)"


# 16 MB at most: of 2 million uids, one in some ten thousand is mistaken; of 10 million, one in 500.
_WORDS_MAX: Final = 1 << 21
# No format says a measurement in less, unless it is compressed.
_BYTES_PER_WORD: Final = 64
# Every hash is these many bits of one word: one look into memory for each.
_BITS: Final = 5

Hashes = NDArray[np.uint64]


class SeenUids:
    """The uids of one source, as far as it was read.

    Args:
        size_bytes: The size of the source, which decides how much memory it takes.
    """

    def __init__(self, size_bytes: int) -> None:
        self.capacity = min(_WORDS_MAX, 1 << (size_bytes // _BYTES_PER_WORD).bit_length())
        self._words = np.zeros(self.capacity, np.uint64)

    def learn(self, hashes: Hashes) -> None:
        """Take uids as seen."""
        np.bitwise_or.at(self._words, self._places(hashes), _bits(hashes))

    def suspects(self, hashes: Hashes) -> NDArray[np.bool_] | None:
        """Which uids came before, here or in an earlier call; None if none did.

        Returns:
            True where a uid came before or is mistaken for one that did; never for the first of
            several unless it is mistaken.
        """
        places, bits = self._places(hashes), _bits(hashes)
        found: NDArray[np.bool_] = (self._words[places] & bits) == bits
        np.bitwise_or.at(self._words, places, bits)
        ordered = np.sort(hashes)
        if (ordered[1:] == ordered[:-1]).any():
            again = np.ones(len(hashes), np.bool_)
            again[np.unique(hashes, return_index=True)[1]] = False
            found |= again
        return found if found.any() else None

    def _places(self, hashes: Hashes) -> NDArray[np.intp]:
        # The upper bits choose the word, the lower ones the bits in it.
        return (hashes >> np.uint64(40)).astype(np.intp) & (self.capacity - 1)


def _bits(hashes: Hashes) -> Hashes:
    bits = np.zeros(len(hashes), np.uint64)
    for number in range(_BITS):
        bits |= np.uint64(1) << ((hashes >> np.uint64(6 * number)) & np.uint64(63))
    return bits
