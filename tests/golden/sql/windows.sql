SELECT
  m.account_id,
  w.period_start AS period_start,
  w.period_end AS period_end,
  count(*) AS measurements,
  coalesce(bool_or(m."measure.n" NOT BETWEEN -1000000000000000 AND 1000000000000000), false) AS large,
  sum(m."measure.n") AS a1,
  min(m."measure.n") AS a2,
  max(m."measure.n") AS a3,
  CAST(count(m."measure.n") AS DECIMAL(38, 0)) AS a4,
  max_by(m."measure.n", create_sort_key(m.ts, 'ASC NULLS FIRST', m.uid, 'ASC NULLS FIRST')) AS a5,
  {'sum': sum(m."measure.n"), 'count': CAST(count(m."measure.n") AS DECIMAL(38, 0))} AS a6,
  CAST(count(DISTINCT m."what.s") AS DECIMAL(38, 0)) AS a7
FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND m.ts >= w.period_start AND m.ts < w.period_end
WHERE m.ts >= $start AND m.ts < $end
GROUP BY m.account_id, w.period_start, w.period_end
ORDER BY 1, 2, 3
-- end: 2026-11-01 00:00:00
-- start: 2026-10-01 00:00:00
-- window_accounts: ['a', 'b']
-- window_ends: [datetime.datetime(2026, 10, 16, 0, 0), datetime.datetime(2026, 11, 1, 0, 0)]
-- window_starts: [datetime.datetime(2026, 10, 1, 0, 0), datetime.datetime(2026, 10, 16, 0, 0)]
