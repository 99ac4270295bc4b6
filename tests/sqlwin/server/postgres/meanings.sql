-- Statements with the same rows and names of columns in PostgreSQL and over the server.
-- One per line; `-- ` starts a group.

-- types and casts
SELECT '2024-01-01'::timestamp, '2024-01-01 10:00'::timestamp without time zone, timestamp '2024-05-01 10:00:00.5'
SELECT '2024-01-01 10:00:00+02'::timestamptz, timestamp with time zone '2024-01-01 00:00:00.000Z', '2024-01-01'::timestamp with time zone
SELECT '5'::int4 + 1, '5'::int8, '2'::int2, '1.5'::float8, '2.5'::float4, 't'::bool, 'x'::text, 12::text, 'abc'::varchar(2)
SELECT 2.5::int, 3.5::int, (-2.5)::int, 2.5::float8::int, 3.5::float8::int, 1e3::float8::bigint, 2.4::int8
SELECT 1::float8::text, 0.1::float8::text, 12345678.5::float8::text, 1e20::float8::text, 1e-7::float8::text, 1.50::numeric(10,2)::text, true::text
SELECT '1.5'::numeric + 1, 10::numeric / 4, '10.25'::numeric(6,1)
SELECT '\\x0f10'::bytea, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid::text, '{"a": 1}'::json::text
SELECT '{1,2}'::int[], '{a,"b,c",NULL}'::text[], ARRAY[1,2]::bigint[], ARRAY['a','b']
SELECT (ARRAY[10,20])[1], array_length(ARRAY[1,2,3], 1), cardinality(ARRAY[1,2]), array_to_string(ARRAY['a','b'], '-')
SELECT '1 day'::interval, interval '90 minutes', '2 hours 30 minutes'::interval, interval '1 week'
SELECT tz::date, ts::date, day::timestamp, ts::text, day::text FROM m ORDER BY id
SELECT n::text, big::text, x::text, d::text, flag::text FROM m ORDER BY id
SELECT x::int, d::int, x::bigint FROM m WHERE id < 4 ORDER BY id

-- numbers
SELECT 2^3, -2^2, 2*3^2, 2^3^2, 10/4, -7/2, 7%3, -7%3, 10/4.0, 10.0/4, 1/2*4
SELECT n/2, n/2.0, n/4*4, big/3, x/2, d/2, (n+1)/2, n%2 FROM m WHERE id < 4 ORDER BY id
SELECT sum(n)/count(*), count(*)/2, sum(n)*1.0/count(n), avg(n), sum(big)/2, avg(x)/2 FROM m
SELECT round(2.5), round(2.5::float8), round(3.5::float8), round(2.567, 2), trunc(2.9), trunc(-2.9), trunc(2.567, 2), ceil(2.1), floor(-2.1)
SELECT log(100), ln(1), log(2, 8), power(2, 10), sqrt(16), abs(-3), sign(-2.5), mod(7, 3), div(7, 2), pi() > 3
SELECT c / 2 FROM (SELECT count(*) AS c FROM m) s
WITH s AS (SELECT count(*), max(n) FROM m) SELECT count / 2, max / 2 FROM s
SELECT greatest(1, 3, 2), least(1, NULL, 2), coalesce(NULL, 5), nullif(1, 1)

-- texts
SELECT k ~ '^a', k ~* '^A', k !~ 'b$', k !~* 'B', k ~ '[[:alpha:]]' FROM m ORDER BY id
SELECT 'a' || 'b', concat('a', NULL, 1), concat_ws('-', 'a', NULL, 'b'), initcap('hello wORLD-foo'), left('abc', 2), right('abc', 2)
SELECT substring('abcdef' from 2 for 3), substring('abcdef', 0, 3), substr('abcdef', 3), substring('ab12' from '[0-9]+'), substring('ab12' from '([a-z])[0-9]')
SELECT ltrim('xxa', 'x'), rtrim('axx', 'x'), btrim('xax', 'x'), trim('  a '), trim(both 'x' from 'xax'), lpad('7', 3, '0'), rpad('a', 3, '-')
SELECT strpos('abc', 'c'), position('b' in 'abc'), split_part('a,b,c', ',', 2), replace('aab', 'a', 'x'), reverse('abc'), repeat('ab', 2), length('abc'), upper('a'), lower('B')
SELECT regexp_replace('a1b2', '[0-9]', 'x'), regexp_replace('a1b2', '[0-9]', 'x', 'g'), regexp_replace('John Smith', '(\\w+) (\\w+)', '\\2, \\1'), regexp_replace('aAa', 'A', '-', 'gi')
SELECT string_to_array('a.b.c', '.'), starts_with('abc', 'ab'), md5('a'), encode('\\x0f'::bytea, 'hex'), decode('0f', 'hex'), to_hex(255), chr(65), ascii('A')
SELECT k LIKE 'a%', k ILIKE 'A%', k NOT LIKE '%b' FROM m ORDER BY id

-- times
SELECT extract(epoch from ts)::bigint, extract(epoch from tz)::bigint, extract(epoch from day)::bigint, extract(epoch from interval '2 hours')::int FROM m ORDER BY id
SELECT extract(epoch from timestamp '2024-01-01 00:00:00.25'), date_part('epoch', timestamptz '1970-01-01 00:00:01Z')
SELECT extract(dow from ts), extract(isodow from ts), extract(doy from ts), extract(week from ts), extract(isoyear from ts), extract(quarter from ts), extract(year from ts), extract(month from tz), extract(day from day) FROM m ORDER BY id
SELECT date_part('dow', ts), date_part('hour', ts), date_part('year', day), extract(second from ts), extract(milliseconds from ts), extract(minute from tz) FROM m ORDER BY id
SELECT ts AT TIME ZONE 'Europe/Berlin', tz AT TIME ZONE 'Europe/Berlin', tz AT TIME ZONE 'UTC', timezone('America/New_York', tz), tz AT TIME ZONE '+02' FROM m ORDER BY id
SELECT date_trunc('month', ts), date_trunc('week', ts), date_trunc('hour', tz), date_trunc('day', ts)::date, date_trunc('quarter', day) FROM m ORDER BY id
SELECT date_bin('15 minutes', ts, timestamp '2001-01-01'), date_bin(interval '1 day', tz, '2001-01-01 03:00Z') FROM m ORDER BY id
SELECT day - date '2024-01-01', day + 7, day - 1, ts - ts, ts + interval '1 day', ts - interval '1 month', ts + '1 mon 2 days'::interval FROM m ORDER BY id
SELECT to_char(ts, 'YYYY-MM-DD HH24:MI:SS'), to_char(ts, 'DD Mon YYYY'), to_char(ts, 'FMMonth FMDD'), to_char(ts, 'Month|'), to_char(ts, 'Dy D ID Q IW IYYY DDD'), to_char(ts, 'HH12:MI AM MS US'), to_char(ts, '"Week" IW'), to_char(day, 'YYYYMMDD') FROM m ORDER BY id
SELECT to_timestamp('2024-05-01 10:30', 'YYYY-MM-DD HH24:MI'), to_timestamp(1700000000), to_timestamp(1.5), to_date('31 Jan 2024', 'DD Mon YYYY')
SELECT make_date(2024, 2, 29), make_timestamp(2024, 2, 29, 10, 30, 1.5), make_interval(days => 3), make_interval(hours => 2, mins => 30)
SELECT ts > '2024-01-01', tz >= timestamptz '2024-01-01 00:00Z', day = '2024-02-29', ts BETWEEN '2024-01-01' AND '2024-12-31' FROM m ORDER BY id

-- rows and groups
SELECT DISTINCT ON (flag) flag, n FROM m ORDER BY flag, n DESC
SELECT DISTINCT ON (flag) id, k FROM m WHERE n IS NOT NULL ORDER BY flag, id LIMIT 1
SELECT n FROM m ORDER BY n
SELECT n FROM m ORDER BY n DESC
SELECT k FROM m ORDER BY k NULLS FIRST, id
SELECT string_agg(k, ',' ORDER BY k DESC), string_agg(DISTINCT k, '+' ORDER BY k), string_agg(DISTINCT k, '-'), array_agg(n ORDER BY id), bool_and(flag), bool_or(flag), every(flag) FROM m
SELECT count(*), count(DISTINCT k), count(*) FILTER (WHERE flag), max(ts), min(day), stddev(n), var_pop(n) FROM m
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n), percentile_disc(0.5) WITHIN GROUP (ORDER BY n), mode() WITHIN GROUP (ORDER BY flag) FROM m
SELECT id, row_number() OVER (ORDER BY id), lag(n) OVER (ORDER BY id), sum(n) OVER (ORDER BY id), rank() OVER (PARTITION BY flag ORDER BY id) FROM m ORDER BY id
SELECT id = ANY(ARRAY[1,3]), id = ANY('{2}'), id <> ALL(ARRAY[1,2]), id > ANY(ARRAY[2,9]), id = ANY(SELECT id FROM m WHERE id < 2) FROM m ORDER BY id
SELECT * FROM generate_series(1, 3)
SELECT g FROM generate_series(1, 5, 2) AS g
SELECT n FROM generate_series(3, 1) AS t(n)
SELECT d::date FROM generate_series(timestamp '2024-01-01', '2024-01-03', '1 day') AS d
SELECT pg_typeof(n), pg_typeof(x), pg_typeof(ts), pg_typeof(tz), pg_typeof(k), pg_typeof(n / 2) FROM m WHERE id = 1
SELECT flag, count(*) FROM m GROUP BY 1 ORDER BY 2 DESC, 1
SELECT upper(k), n + 1, n::float8, CASE WHEN flag THEN 1 ELSE 0 END, coalesce(n, 0), (SELECT max(id) FROM m), true, current_date > '2020-01-01', 'a', NULL FROM m WHERE id = 1
SELECT count FROM (SELECT count(*) FROM m) s
SELECT * FROM m WHERE k IN ('a', 'b') AND n IS DISTINCT FROM 3 OFFSET 0 LIMIT 1
SELECT a / 2 FROM (SELECT 1 AS a UNION ALL SELECT 2.5) t ORDER BY 1
SELECT a / 2, b / 2 FROM (VALUES (1, 2.5), (3, 4.5)) AS t(a, b) ORDER BY 1
SELECT s.x / 2 FROM m CROSS JOIN LATERAL (SELECT m.n AS x) s WHERE m.id = 1
SELECT t.n / 2 FROM unnest(ARRAY[1, 2, 3]) AS t(n) ORDER BY 1
SELECT '{"a": {"b": 7}}'::json #>> '{a,b}', '{"a": 1}'::json ->> 'a'
SELECT n BETWEEN SYMMETRIC 9 AND 1 FROM m ORDER BY id
SELECT id FROM m ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT id FROM m ORDER BY id LIMIT ALL
SELECT DISTINCT ON (flag) * FROM m WHERE id < 3 ORDER BY flag, id
SELECT (now() - tz) > interval '1 day', now()::date = current_date FROM m ORDER BY id
SELECT day + interval '1 day', day - interval '2 hours', interval '1 day' + day FROM m ORDER BY id
