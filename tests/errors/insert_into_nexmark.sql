CREATE TABLE auctions (event_type INT) WITH ('connector' = 'nexmark', 'events.num' = '100');
INSERT INTO auctions SELECT 1;
