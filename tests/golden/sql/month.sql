SELECT
  m.account_id,
  CAST($start AS TIMESTAMP) AS period_start,
  CAST($end AS TIMESTAMP) AS period_end,
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
WHERE m.ts >= $start AND m.ts < $end
GROUP BY m.account_id
ORDER BY 1, 2, 3
-- end: 2026-11-01 00:00:00
-- start: 2026-10-01 00:00:00
