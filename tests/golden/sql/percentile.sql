SELECT
  m.account_id,
  CAST($start AS TIMESTAMP) AS period_start,
  CAST($end AS TIMESTAMP) AS period_end,
  count(*) AS measurements,
  false AS large,
  quantile_disc(m."measure.n", CAST($p1 AS DECIMAL(38, 22))) AS a1
FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
WHERE m.ts >= $start AND m.ts < $end
GROUP BY m.account_id
ORDER BY 1, 2, 3
-- end: 2026-11-01 00:00:00
-- p1: 0.995
-- start: 2026-10-01 00:00:00
