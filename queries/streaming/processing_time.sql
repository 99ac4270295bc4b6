-- Windows on processing time: a request counts in the window in which it arrives. There is no
-- watermark, no row is late, and a window is emitted when its time is over, even without new rows.
-- Each run has another result.
-- Runs until Ctrl-C.
CREATE TABLE requests (
  page INT,
  took_ms INT,
  arrived AS PROCTIME()
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '200',
  'seed' = '1',
  'fields.page.min' = '1',
  'fields.page.max' = '2',
  'fields.took_ms.min' = '1',
  'fields.took_ms.max' = '900'
);

SELECT window_start, window_end, page, COUNT(*) AS requests, MAX(took_ms) AS worst_ms
FROM TABLE(TUMBLE(TABLE requests, DESCRIPTOR(arrived), INTERVAL '5' SECONDS))
GROUP BY page, window_start, window_end;
