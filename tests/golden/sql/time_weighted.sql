SELECT
  m.account_id,
  w.period_start AS period_start,
  w.period_end AS period_end,
  count(*) AS measurements,
  coalesce(bool_or(m."measure.n" NOT BETWEEN -1000000000000000 AND 1000000000000000), false) AS large,
  sum(m."measure.n") AS a1,
  NULL AS a2
FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND m.ts >= w.period_start AND m.ts < w.period_end
WHERE m.ts >= $start AND m.ts < $end
GROUP BY m.account_id, w.period_start, w.period_end
UNION ALL
SELECT
  m.account_id,
  m.period_start AS period_start,
  m.period_end AS period_end,
  0 AS measurements,
  false AS large,
  NULL AS a1,
  {
    'sum': {
      'high': CAST(sum(CAST(trunc(m."measure.n") AS HUGEINT) // 10000000000000 * (CASE WHEN m.until2 IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(m.until2, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0)),
      'whole': CAST(sum(CAST(trunc(m."measure.n") AS HUGEINT) % 10000000000000 * (CASE WHEN m.until2 IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(m.until2, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0)),
      'rest': CAST(sum(CAST(CAST(m."measure.n" - trunc(m."measure.n") AS DECIMAL(25, 12)) * CAST(1000000000000 AS DECIMAL(13, 0)) AS HUGEINT) * (CASE WHEN m.until2 IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(m.until2, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0))
    },
    'count': CAST(sum((CASE WHEN m.until2 IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(m.until2, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0))
  } AS a2
FROM (
  SELECT m.*, w.period_start, w.period_end
  FROM (
    SELECT m.*,
    CASE
      WHEN m."measure.n" IS NULL THEN NULL
      WHEN lead(CASE WHEN m."measure.n" IS NOT NULL THEN m.ts END IGNORE NULLS) OVER (PARTITION BY m.account_id ORDER BY m.ts, m.uid) = m.ts THEN m.ts
      WHEN m.ets IS NOT NULL THEN greatest(m.ets, m.ts)
      ELSE coalesce(lead(CASE WHEN m."measure.n" IS NOT NULL THEN m.ts END IGNORE NULLS) OVER (PARTITION BY m.account_id ORDER BY m.ts, m.uid), CAST($end AS TIMESTAMP))
    END AS until2
    FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
    WHERE m.ts < $end
  ) AS m
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND m.ts < w.period_end AND m.until2 > w.period_start
  WHERE m.until2 > $start
) AS m
GROUP BY m.account_id, m.period_start, m.period_end
ORDER BY 1, 2, 3, 4
-- end: 2026-11-01 00:00:00
-- start: 2026-10-01 00:00:00
-- window_accounts: ['a', 'b']
-- window_ends: [datetime.datetime(2026, 10, 16, 0, 0), datetime.datetime(2026, 11, 1, 0, 0)]
-- window_starts: [datetime.datetime(2026, 10, 1, 0, 0), datetime.datetime(2026, 10, 16, 0, 0)]
