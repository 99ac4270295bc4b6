-- Visits: clicks of a user less than five minutes apart form a session. A session is emitted when
-- the watermark passes its end, five minutes after its last click. Some clicks arrive three minutes
-- late and extend or merge open sessions. Others arrive half an hour late, after the session was
-- emitted, and go to the table named by 'late-rows'.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE clicks (
  id BIGINT,
  visitor INT,
  clicked_at AS TIMESTAMP '2026-03-01 09:00:00' + INTERVAL '1' SECOND * (id * 20)
        - CASE id % 40
            WHEN 39 THEN INTERVAL '3' MINUTES
            WHEN 19 THEN INTERVAL '30' MINUTES
            ELSE INTERVAL '0' MINUTES
          END,
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '10' SECONDS
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '300',
  'rows-per-batch' = '80',
  'seed' = '2',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '299',
  'fields.visitor.min' = '1',
  'fields.visitor.max' = '12',
  'late-rows' = 'too_late'
);

CREATE TABLE too_late (
  visitor INT,
  clicked_at TIMESTAMP(3),
  missed_watermark TIMESTAMP(3)
) WITH ('connector' = 'memory');

SELECT visitor, window_start AS visit_start, window_end AS visit_end, COUNT(*) AS clicks
FROM TABLE(SESSION(TABLE clicks PARTITION BY visitor, DESCRIPTOR(clicked_at), INTERVAL '5' MINUTES))
GROUP BY visitor, window_start, window_end
HAVING COUNT(*) >= 5;

SELECT visitor, clicked_at, missed_watermark
FROM too_late
ORDER BY missed_watermark, clicked_at;
