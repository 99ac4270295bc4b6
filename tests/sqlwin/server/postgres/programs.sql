-- Statements in the form in which programs send them, by what their public sources build.
-- One per line; `-- ` starts a group. The table is `m`.

-- Metabase (driver/postgres.clj)
SELECT "public"."m"."id" AS "id", "public"."m"."k" AS "k", "public"."m"."ts" AS "ts" FROM "public"."m" ORDER BY "public"."m"."id" ASC LIMIT 1048575
SELECT COUNT(*) AS "count" FROM "public"."m"
SELECT CAST("public"."m"."ts" AS date) AS "ts", COUNT(*) AS "count" FROM "public"."m" GROUP BY CAST("public"."m"."ts" AS date) ORDER BY CAST("public"."m"."ts" AS date) ASC
SELECT DATE_TRUNC('month', "public"."m"."tz") AS "tz", SUM("public"."m"."n") AS "sum" FROM "public"."m" WHERE ("public"."m"."tz" >= timestamp with time zone '2024-01-01 00:00:00.000Z') AND ("public"."m"."tz" < timestamp with time zone '2025-01-01 00:00:00.000Z') GROUP BY DATE_TRUNC('month', "public"."m"."tz") ORDER BY DATE_TRUNC('month', "public"."m"."tz") ASC
SELECT COUNT(*) AS "count" FROM "public"."m" WHERE ("public"."m"."ts" >= DATE_TRUNC('day', (NOW() + INTERVAL '-30 day'))) AND ("public"."m"."ts" < DATE_TRUNC('day', NOW()))
SELECT (DATE_TRUNC('week', ("public"."m"."ts" + INTERVAL '1 day')) + INTERVAL '-1 day') AS "ts", COUNT(*) AS "count" FROM "public"."m" GROUP BY 1 ORDER BY 1
SELECT CAST(EXTRACT(dow FROM "public"."m"."ts") AS integer) + 1 AS "ts", COUNT(*) AS "count" FROM "public"."m" GROUP BY CAST(EXTRACT(dow FROM "public"."m"."ts") AS integer) + 1 ORDER BY 1
SELECT CAST(EXTRACT(hour FROM "public"."m"."ts") AS integer) AS "ts", COUNT(*) AS "count" FROM "public"."m" GROUP BY 1 ORDER BY 1 ASC
SELECT CAST(EXTRACT(doy FROM "public"."m"."ts") AS integer) AS "a", CAST(EXTRACT(quarter FROM "public"."m"."ts") AS integer) AS "b", CAST(EXTRACT(week FROM "public"."m"."ts") AS integer) AS "c" FROM "public"."m" ORDER BY "public"."m"."id"
SELECT FLOOR(("public"."m"."n" / 10.0)) * 10.0 AS "n", COUNT(*) AS "count" FROM "public"."m" GROUP BY FLOOR(("public"."m"."n" / 10.0)) * 10.0 ORDER BY 1
SELECT CAST("public"."m"."n" AS DOUBLE PRECISION) / NULLIF(CAST("public"."m"."id" AS DOUBLE PRECISION), 0.0) AS "ratio" FROM "public"."m" ORDER BY "public"."m"."id"
SELECT "public"."m"."k" AS "k" FROM "public"."m" WHERE (LOWER("public"."m"."k") LIKE '%b%') AND ("public"."m"."k" IS NOT NULL) ORDER BY "public"."m"."k" ASC
SELECT to_timestamp("public"."m"."big") AS "at" FROM "public"."m" WHERE "public"."m"."big" = 7
SELECT substring("public"."m"."k" FROM '[a-z]+') AS "word" FROM "public"."m" ORDER BY "public"."m"."id"
SELECT PERCENTILE_CONT(0.5) within group (order by "public"."m"."n") AS "median" FROM "public"."m"
SELECT timezone('Europe/Berlin', "public"."m"."tz") AS "berlin", timezone('Europe/Berlin', timezone('UTC', "public"."m"."ts")) AS "moved" FROM "public"."m" ORDER BY "public"."m"."id"
SELECT CAST(TRUNC(EXTRACT(epoch FROM "public"."m"."tz") - EXTRACT(epoch FROM timestamp with time zone '2024-01-01 00:00:00Z')) AS integer) / 3600 AS "hours" FROM "public"."m" ORDER BY "public"."m"."id"
SELECT CAST("public"."m"."ts" AS date) - CAST("public"."m"."tz" AS date) AS "days" FROM "public"."m" ORDER BY "public"."m"."id"
SELECT "source"."k" AS "k", "source"."sum" AS "sum" FROM (SELECT "public"."m"."k" AS "k", SUM("public"."m"."n") AS "sum" FROM "public"."m" GROUP BY "public"."m"."k") AS "source" WHERE "source"."sum" > 1 ORDER BY "source"."k" LIMIT 2000
SELECT SUM(CASE WHEN "public"."m"."flag" = TRUE THEN 1 ELSE 0.0 END) / COUNT(*) AS "share", COUNT(DISTINCT "public"."m"."k") AS "count" FROM "public"."m"
SELECT CAST(DATE_TRUNC('year', CAST("public"."m"."day" AS date)) AS date) AS "day", AVG("public"."m"."x") AS "avg" FROM "public"."m" GROUP BY 1 ORDER BY 1
SELECT split_part("public"."m"."k", 'b', 1) AS "part", CONCAT("public"."m"."k", '-', "public"."m"."n") AS "joined", REGEXP_REPLACE("public"."m"."k", 'b', 'x', 'g') AS "r" FROM "public"."m" ORDER BY "public"."m"."id"

-- Grafana (macros.go)
SELECT floor(extract(epoch from tz)/300)*300 AS "time", k AS metric, avg(x) AS value FROM m WHERE tz BETWEEN '2023-01-01T00:00:00Z' AND '2025-01-01T00:00:00Z' GROUP BY 1, 2 ORDER BY 1, 2
SELECT extract(epoch from tz) as "time", n AS "value" FROM m WHERE tz BETWEEN '2024-01-01T00:00:00.123Z' AND '2024-12-31T23:59:59.999Z' ORDER BY 1
SELECT tz AS "time", n FROM m WHERE tz >= '2024-01-01T00:00:00Z' AND tz <= '2024-12-31T00:00:00Z' ORDER BY tz
SELECT floor((big)/60)*60 AS "time", count(*) AS value FROM m WHERE big >= 0 AND big <= 1000000000 GROUP BY 1 ORDER BY 1
SELECT date_bin('5 minutes', tz, timestamptz '2000-01-01 00:00:00Z') AS "time", count(id) FROM m GROUP BY time ORDER BY time
SELECT DISTINCT k FROM m WHERE k ~* 'a|b' ORDER BY k
SELECT k AS __text, id AS __value FROM m WHERE k IN ('a','Ab') ORDER BY 2
SELECT date_trunc('hour', ts) AS time, sum(n) AS "total" FROM m WHERE ts > now() - interval '1 year' * 100 GROUP BY 1 ORDER BY 1
SELECT max(tz) AT TIME ZONE 'UTC' AS last FROM m
SELECT extract(epoch from min(tz))::bigint * 1000 AS first_ms FROM m
SELECT time, value FROM (SELECT tz AS time, n AS value, row_number() OVER (PARTITION BY k ORDER BY tz DESC) AS r FROM m) AS s WHERE r = 1 AND time IS NOT NULL ORDER BY time
SELECT count(*)::float8 / extract(epoch from interval '1 hour') AS per_second FROM m

-- Superset (db_engine_specs/postgres.py)
SELECT DATE_TRUNC('day', ts) AS __timestamp, k AS k, COUNT(*) AS count FROM public.m WHERE ts >= TO_TIMESTAMP('2023-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND ts < TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('day', ts), k ORDER BY count DESC, k, 1 LIMIT 10000
SELECT DATE_TRUNC('week', day) AS __timestamp, sum(n) AS "SUM(n)" FROM public.m WHERE day >= TO_DATE('2023-01-01', 'YYYY-MM-DD') AND day < TO_DATE('2025-01-01', 'YYYY-MM-DD') GROUP BY DATE_TRUNC('week', day) ORDER BY 1 LIMIT 50000
SELECT DATE_TRUNC('month', (timestamp 'epoch' + n * interval '1 second')) AS __timestamp, COUNT(*) AS count FROM m WHERE n > 0 GROUP BY DATE_TRUNC('month', (timestamp 'epoch' + n * interval '1 second')) LIMIT 100
SELECT DATE_TRUNC('quarter', ts) AS __timestamp, avg(x) AS "AVG(x)" FROM m WHERE ((flag = true)) GROUP BY DATE_TRUNC('quarter', ts) HAVING ((COUNT(*) > 0)) ORDER BY "AVG(x)" DESC
SELECT k AS k, sum(n) AS "SUM(n)" FROM (SELECT * FROM public.m WHERE n > 0) AS virtual_table WHERE k ILIKE '%A%' GROUP BY k ORDER BY "SUM(n)" DESC, k LIMIT 1000 OFFSET 0
SELECT DISTINCT k AS k FROM public.m WHERE k IS NOT NULL ORDER BY k LIMIT 1000
SELECT min(ts) AS min_ts, max(ts) AS max_ts FROM m
SELECT * FROM public.m ORDER BY id LIMIT 101
SELECT DATE_TRUNC('minute', tz) AS __timestamp, COUNT(DISTINCT k) AS "COUNT_DISTINCT(k)" FROM public.m GROUP BY DATE_TRUNC('minute', tz) ORDER BY 1
SELECT k, count(*) * 100.0 / sum(count(*)) OVER () AS share FROM m GROUP BY k ORDER BY k
SELECT stddev_pop(n) AS s, percentile_cont(0.25) WITHIN GROUP (ORDER BY n ASC) AS q1 FROM public.m

-- Tableau
SELECT SUM("m"."n") AS "sum:n:ok", "m"."k" AS "k" FROM "public"."m" "m" GROUP BY 2 ORDER BY 2
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "m"."ts")) AS INTEGER) AS "yr:ts:ok", SUM("m"."x") AS "sum:x:ok" FROM "public"."m" "m" GROUP BY 1 ORDER BY 1
SELECT DATE_TRUNC( 'MONTH', CAST("m"."ts" AS TIMESTAMP) ) AS "tmn:ts:ok", AVG(CAST("m"."n" AS DOUBLE PRECISION)) AS "avg:n:ok" FROM "public"."m" "m" GROUP BY 1 ORDER BY 1
SELECT "m"."k" AS "k" FROM "public"."m" "m" WHERE (("m"."k" >= 'A') AND ("m"."k" <= 'zz')) GROUP BY 1 ORDER BY 1
SELECT (CASE WHEN (("m"."n" > 0) AND ("m"."flag")) THEN 'yes' ELSE 'no' END) AS "c", COUNT(1) AS "cnt" FROM "public"."m" "m" GROUP BY 1 ORDER BY 1
SELECT CAST("m"."k" AS TEXT) AS "k", COUNT(DISTINCT "m"."id") AS "ctd" FROM "public"."m" "m" WHERE (NOT ("m"."ts" IS NULL)) GROUP BY 1 ORDER BY 1
SELECT CAST(DATE_TRUNC('DAY', CAST("m"."ts" AS DATE)) AS DATE) AS "tdy", MIN("m"."n") AS "min" FROM "public"."m" "m" GROUP BY 1 ORDER BY 1
SELECT "m"."ts" AS "ts" FROM "public"."m" "m" WHERE ("m"."ts" >= (TIMESTAMP '2024-01-01 00:00:00.000')) AND ("m"."ts" <= (TIMESTAMP '2024-12-31 23:59:59.000')) ORDER BY 1
SELECT "m"."day" AS "day" FROM "public"."m" "m" WHERE ("m"."day" IN ((DATE '2024-02-29'), (DATE '2024-07-01'))) ORDER BY 1
SELECT "t0"."k" AS "k", "t1"."s" AS "s" FROM (SELECT "m"."k" AS "k" FROM "public"."m" "m" GROUP BY 1) "t0" INNER JOIN (SELECT "m"."k" AS "k", SUM("m"."n") AS "s" FROM "public"."m" "m" GROUP BY 1) "t1" ON ("t0"."k" IS NOT DISTINCT FROM "t1"."k") ORDER BY 1
SELECT COUNT(1) AS "x" FROM (SELECT 1 AS "one" FROM "public"."m" "m" LIMIT 3) "s"
SELECT ROUND(CAST("m"."d" AS NUMERIC), 1) AS "r", LEFT("m"."k", 1) AS "l", UPPER("m"."k") AS "u" FROM "public"."m" "m" ORDER BY "m"."id"
SELECT ((CAST("m"."ts" AS DATE) - DATE '2024-01-01') / 7) AS "weeks" FROM "public"."m" "m" ORDER BY "m"."id"
SELECT SUM("m"."n") AS "s" FROM "public"."m" "m" HAVING (COUNT(1) > 0)

-- DBeaver
SELECT * FROM public.m ORDER BY id LIMIT 200
SELECT count(*) FROM public.m
SELECT id,k,n FROM public.m WHERE k='a' ORDER BY n DESC, id
SELECT x.* FROM public.m x WHERE x.n IS NULL ORDER BY x.id
SELECT k, count(*) FROM public.m GROUP BY k ORDER BY count(*) DESC, k
SELECT * FROM (SELECT id, k FROM public.m) z_q ORDER BY 1 OFFSET 1 LIMIT 2
SELECT id FROM public.m WHERE k LIKE 'A%' OR n::varchar LIKE '7%' ORDER BY 1
SELECT min(n), max(n), avg(n), sum(n), count(n) FROM public.m

-- SQLAlchemy (dialects/postgresql)
SELECT m.id, m.k FROM m WHERE m.ts > '2024-01-01 00:00:00'::TIMESTAMP WITHOUT TIME ZONE ORDER BY m.id
SELECT m.id FROM m WHERE m.tz > '2024-01-01 00:00:00+00:00'::TIMESTAMP WITH TIME ZONE ORDER BY m.id
SELECT m.id FROM m WHERE m.k = 'a'::VARCHAR AND m.n = 7::INTEGER
SELECT m.id FROM m WHERE m.day = '2024-02-29'::DATE
SELECT m.id FROM m WHERE m.k ILIKE '%B%' ORDER BY m.id
SELECT m.id FROM m WHERE m.id = ANY (ARRAY[1, 3]) ORDER BY m.id
SELECT m.id FROM m WHERE m.k ~ '^a' ORDER BY m.id
SELECT DISTINCT ON (m.flag) m.flag, m.id FROM m ORDER BY m.flag, m.id
SELECT count(*) AS count_1 FROM (SELECT m.id AS id FROM m) AS anon_1
SELECT EXTRACT(year FROM m.ts) AS anon_1 FROM m ORDER BY m.id
SELECT EXTRACT(epoch FROM m.ts) AS anon_1 FROM m ORDER BY m.id
SELECT string_agg(m.k, ',' ORDER BY m.k) AS string_agg_1, array_agg(m.id ORDER BY m.id) AS array_agg_1 FROM m
SELECT CAST(m.n AS VARCHAR) AS n, CAST(m.x AS NUMERIC(10, 2)) AS x, CAST(m.n AS FLOAT) / 2 AS half FROM m ORDER BY m.id
SELECT m.n / CAST(2 AS NUMERIC) AS a, m.n / 2 AS b, m.n % 2 AS c FROM m ORDER BY m.id
SELECT m.k || '-' || m.k AS joined, coalesce(m.k, 'none') AS c, m.flag IS true AS t FROM m ORDER BY m.id
SELECT anon_1.id FROM (SELECT m.id AS id, rank() OVER (PARTITION BY m.flag ORDER BY m.n DESC) AS r FROM m WHERE m.n IS NOT NULL) AS anon_1 WHERE anon_1.r = 1 ORDER BY anon_1.id
SELECT g FROM generate_series(1, 3) AS g WHERE EXISTS (SELECT * FROM m WHERE m.id = g) ORDER BY g
SELECT m.ts AT TIME ZONE 'Europe/Berlin' AS anon_1 FROM m ORDER BY m.id
SELECT m.id FROM m ORDER BY m.n DESC NULLS LAST, m.id LIMIT 2 OFFSET 1
SELECT count(m.id) FILTER (WHERE m.flag) AS anon_1, percentile_cont(0.5) WITHIN GROUP (ORDER BY m.x) AS p FROM m
SELECT 'x'::TEXT AS t, 1::BIGINT AS b, true::BOOLEAN AS f
