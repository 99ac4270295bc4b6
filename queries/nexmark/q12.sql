-- Nexmark q12, processing-time windows: number of bids of each bidder per ten seconds of processing
-- time. In a batch, all rows have the time of the statement.
CREATE TABLE nexmark (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, `dateTime` TIMESTAMP(3), extra VARCHAR>,
  `dateTime` AS bid.`dateTime`,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events.num' = '100000', 'first-event.rate' = '1000');

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM nexmark WHERE event_type = 2;

CREATE VIEW B AS SELECT *, PROCTIME() AS p_time FROM bid;

SELECT bidder, count(*) AS bid_count
FROM TABLE(TUMBLE(TABLE B, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
