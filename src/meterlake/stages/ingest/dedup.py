"""Which measurements of a source are repeats, and which contradict what is known, as SQL text.

A uid that the lake knows is judged against the lake, else against its first row in the source:
equal content is a repeat, other content is a contradiction (DuplicateUid).
"""

from typing import Final

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
