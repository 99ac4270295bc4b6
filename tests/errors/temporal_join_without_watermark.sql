CREATE TABLE orders (id INT, currency STRING, ts TIMESTAMP(3)) WITH ('connector' = 'datagen');
CREATE TABLE rates (currency STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since,
  PRIMARY KEY (currency) NOT ENFORCED) WITH ('connector' = 'datagen');
SET 'execution.runtime-mode' = 'streaming';
SELECT id, rate FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency;
