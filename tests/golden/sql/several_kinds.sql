SELECT
  m.account_id,
  m.period_start AS period_start,
  m.period_end AS period_end,
  count(*) AS measurements,
  coalesce(bool_or(m.large), false) AS large,
  CASE WHEN m.kind = 1 THEN m.number END,
  max_by(CASE WHEN m.kind = 0 THEN m."measure.n" END, m.newest) AS a1,
  max_by(CASE WHEN m.kind = 1 THEN m."measure.n" END, m.newest) AS a2,
  sum(CASE WHEN m.kind = 0 THEN m."measure.n" END) AS a3,
  sum(CASE WHEN m.kind = 1 THEN m."measure.n" END) AS a4,
  NULL AS a5,
  NULL AS a6
FROM (
  SELECT m.*, g.kind, CASE g.kind WHEN 1 THEN m.segment1 END AS number
  FROM (SELECT m.*, w.period_start, w.period_end, create_sort_key(m.ts, 'ASC NULLS FIRST', m.uid, 'ASC NULLS FIRST') AS newest, m."measure.n" NOT BETWEEN -1000000000000000 AND 1000000000000000 AS large FROM (
  SELECT m.*, coalesce(s1_1.number, 2) AS segment1
  FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
  LEFT JOIN (SELECT unnest(CAST($s1_1_1 AS VARCHAR[])) AS value1, unnest(CAST($s1_1 AS INTEGER[])) AS number) AS s1_1
    ON m."what.s" = s1_1.value1
) AS m
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND m.ts >= w.period_start AND m.ts < w.period_end WHERE m.ts >= $start AND m.ts < $end) AS m,
    (VALUES (0), (1)) AS g(kind)
) AS m
GROUP BY m.account_id, m.period_start, m.period_end, m.kind, m.number
UNION ALL
SELECT
  m.account_id,
  m.period_start AS period_start,
  m.period_end AS period_end,
  0 AS measurements,
  false AS large,
  CASE WHEN m.kind = 1 THEN m.number END,
  NULL AS a1,
  NULL AS a2,
  NULL AS a3,
  NULL AS a4,
  {
    'sum': {
      'high': CAST(sum(CAST(trunc(CASE WHEN m.kind = 0 THEN m."measure.n" END) AS HUGEINT) // 10000000000000 * (CASE WHEN CASE WHEN m.kind = 0 THEN m.until5 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 0 THEN m.until5 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0)),
      'whole': CAST(sum(CAST(trunc(CASE WHEN m.kind = 0 THEN m."measure.n" END) AS HUGEINT) % 10000000000000 * (CASE WHEN CASE WHEN m.kind = 0 THEN m.until5 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 0 THEN m.until5 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0)),
      'rest': CAST(sum(CAST(CAST(CASE WHEN m.kind = 0 THEN m."measure.n" END - trunc(CASE WHEN m.kind = 0 THEN m."measure.n" END) AS DECIMAL(25, 12)) * CAST(1000000000000 AS DECIMAL(13, 0)) AS HUGEINT) * (CASE WHEN CASE WHEN m.kind = 0 THEN m.until5 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 0 THEN m.until5 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0))
    },
    'count': CAST(sum((CASE WHEN CASE WHEN m.kind = 0 THEN m.until5 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 0 THEN m.until5 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0))
  } AS a5,
  {
    'sum': {
      'high': CAST(sum(CAST(trunc(CASE WHEN m.kind = 1 THEN m."measure.n" END) AS HUGEINT) // 10000000000000 * (CASE WHEN CASE WHEN m.kind = 1 THEN m.until6 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 1 THEN m.until6 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0)),
      'whole': CAST(sum(CAST(trunc(CASE WHEN m.kind = 1 THEN m."measure.n" END) AS HUGEINT) % 10000000000000 * (CASE WHEN CASE WHEN m.kind = 1 THEN m.until6 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 1 THEN m.until6 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0)),
      'rest': CAST(sum(CAST(CAST(CASE WHEN m.kind = 1 THEN m."measure.n" END - trunc(CASE WHEN m.kind = 1 THEN m."measure.n" END) AS DECIMAL(25, 12)) * CAST(1000000000000 AS DECIMAL(13, 0)) AS HUGEINT) * (CASE WHEN CASE WHEN m.kind = 1 THEN m.until6 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 1 THEN m.until6 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0))
    },
    'count': CAST(sum((CASE WHEN CASE WHEN m.kind = 1 THEN m.until6 END IS NULL THEN NULL ELSE greatest(0, (epoch_us(least(CASE WHEN m.kind = 1 THEN m.until6 END, m.period_end)) - epoch_us(greatest(m.ts, m.period_start)))) END)) AS DECIMAL(38, 0))
  } AS a6
FROM (
  SELECT m.*, g.kind, CASE g.kind WHEN 1 THEN m.segment1 END AS number
  FROM (
  SELECT m.*, w.period_start, w.period_end
  FROM (
    SELECT m.*,
    CASE
      WHEN m."measure.n" IS NULL THEN NULL
      WHEN lead(CASE WHEN m."measure.n" IS NOT NULL THEN m.ts END IGNORE NULLS) OVER (PARTITION BY m.account_id ORDER BY m.ts, m.uid) = m.ts THEN m.ts
      WHEN m.ets IS NOT NULL THEN greatest(m.ets, m.ts)
      ELSE coalesce(lead(CASE WHEN m."measure.n" IS NOT NULL THEN m.ts END IGNORE NULLS) OVER (PARTITION BY m.account_id ORDER BY m.ts, m.uid), CAST($end AS TIMESTAMP))
    END AS until5,
    CASE
      WHEN m."measure.n" IS NULL THEN NULL
      WHEN lead(CASE WHEN m."measure.n" IS NOT NULL THEN m.ts END IGNORE NULLS) OVER (PARTITION BY m.account_id, m.segment1 ORDER BY m.ts, m.uid) = m.ts THEN m.ts
      WHEN m.ets IS NOT NULL THEN greatest(m.ets, m.ts)
      ELSE coalesce(lead(CASE WHEN m."measure.n" IS NOT NULL THEN m.ts END IGNORE NULLS) OVER (PARTITION BY m.account_id, m.segment1 ORDER BY m.ts, m.uid), CAST($end AS TIMESTAMP))
    END AS until6
    FROM (
  SELECT m.*, coalesce(s1_1.number, 2) AS segment1
  FROM (FROM lake."m_5f0c2f0e-0000-4000-8000-000000000001" AT (VERSION => 42)) AS m
  LEFT JOIN (SELECT unnest(CAST($s1_1_1 AS VARCHAR[])) AS value1, unnest(CAST($s1_1 AS INTEGER[])) AS number) AS s1_1
    ON m."what.s" = s1_1.value1
) AS m
    WHERE m.ts < $end
  ) AS m
JOIN (
  SELECT
    unnest(CAST($window_accounts AS VARCHAR[])) AS account_id,
    unnest(CAST($window_starts AS TIMESTAMP[])) AS period_start,
    unnest(CAST($window_ends AS TIMESTAMP[])) AS period_end
) AS w ON m.account_id = w.account_id AND m.ts < w.period_end AND greatest(m.until5, m.until6) > w.period_start
  WHERE greatest(m.until5, m.until6) > $start
) AS m,
    (VALUES (0), (1)) AS g(kind)
) AS m
GROUP BY m.account_id, m.period_start, m.period_end, m.kind, m.number
ORDER BY 1, 2, 3, 6, 4
-- end: 2026-11-01 00:00:00
-- s1_1: [1]
-- s1_1_1: ['x']
-- start: 2026-10-01 00:00:00
-- window_accounts: ['a', 'b']
-- window_ends: [datetime.datetime(2026, 10, 16, 0, 0), datetime.datetime(2026, 11, 1, 0, 0)]
-- window_starts: [datetime.datetime(2026, 10, 1, 0, 0), datetime.datetime(2026, 10, 16, 0, 0)]
