SELECT
  m.account_id,
  CAST($start AS TIMESTAMP) AS period_start,
  CAST($end AS TIMESTAMP) AS period_end,
  count(*) AS measurements,
  coalesce(bool_or(m."measure.n" NOT BETWEEN -1000000000000000 AND 1000000000000000), false) AS large,
  m.segment1,
  sum(m."measure.n") AS a1,
  CAST(count(m."measure.n") AS DECIMAL(38, 0)) AS a2
FROM (
  SELECT m.*, coalesce(s1_1.number, s1_2.number, 3) AS segment1
  FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
  LEFT JOIN (SELECT unnest(CAST($s1_1_1 AS VARCHAR[])) AS value1, unnest(CAST($s1_1_2 AS VARCHAR[])) AS value2, unnest(CAST($s1_1 AS INTEGER[])) AS number) AS s1_1
    ON m."what.s" = s1_1.value1 AND m."where.r" = s1_1.value2
  LEFT JOIN (SELECT unnest(CAST($s1_2_1 AS VARCHAR[])) AS value1, unnest(CAST($s1_2 AS INTEGER[])) AS number) AS s1_2
    ON m."what.s" = s1_2.value1
) AS m
WHERE m.ts >= $start AND m.ts < $end
GROUP BY m.account_id, m.segment1
ORDER BY 1, 2, 3, 6
-- end: 2026-11-01 00:00:00
-- s1_1: [1]
-- s1_1_1: ['x']
-- s1_1_2: ['eu']
-- s1_2: [2]
-- s1_2_1: ['x']
-- start: 2026-10-01 00:00:00
