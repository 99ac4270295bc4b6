-- Unpaid orders: a join of two streams within half an hour. An order is emitted when all payments
-- that can match have arrived, with the time of its payment, or once with NULL. Half of the orders
-- are paid after 40 or 60 minutes, which is too late.
SET 'execution.runtime-mode' = 'streaming';

CREATE TABLE orders (
  id INT,
  ordered_at AS TIMESTAMP '2026-03-01 09:00:00' + INTERVAL '5' MINUTES * id,
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '24',
  'rows-per-batch' = '6',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '0',
  'fields.id.end' = '23'
);

CREATE TABLE payments (
  order_id INT,
  paid_at AS TIMESTAMP '2026-03-01 09:00:00' + INTERVAL '5' MINUTES * order_id
        + INTERVAL '20' MINUTES * (order_id % 4),
  WATERMARK FOR paid_at AS paid_at - INTERVAL '1' HOUR
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '24',
  'rows-per-batch' = '6',
  'fields.order_id.kind' = 'sequence',
  'fields.order_id.start' = '0',
  'fields.order_id.end' = '23'
);

SELECT o.id, o.ordered_at, p.paid_at
FROM orders AS o LEFT JOIN payments AS p
ON o.id = p.order_id AND p.paid_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL '30' MINUTES;
