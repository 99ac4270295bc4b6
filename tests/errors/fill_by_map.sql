CREATE TEMPORARY VIEW readings AS SELECT map('room', room) AS labels, ts FROM VALUES ('hall', TIMESTAMP_NTZ'2026-01-31 08:01:00') AS v(room, ts);
SELECT labels, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY labels, window_start, window_end FILL (n = 0);
