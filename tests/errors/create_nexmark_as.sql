CREATE TABLE auctions WITH ('connector' = 'nexmark', 'events.num' = '100') AS SELECT 1 AS event_type;
