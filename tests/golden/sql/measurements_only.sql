SELECT
  m.account_id,
  CAST($start AS TIMESTAMP) AS period_start,
  CAST($end AS TIMESTAMP) AS period_end,
  count(*) AS measurements,
  false AS large
FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
WHERE m.ts >= $start AND m.ts < $end
GROUP BY m.account_id
ORDER BY 1, 2, 3
-- end: 2026-11-01 00:00:00
-- start: 2026-10-01 00:00:00
