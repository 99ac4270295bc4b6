"""Definitions of Nexmark's queries in DuckDB's SQL over the tables `person`, `auction` and `bid`."""

HOP = """
    WITH bids AS (
        SELECT auction, w.start AS starttime, w.start + INTERVAL {size} SECOND AS endtime,
               count(*) AS num
        FROM bid, LATERAL (
            SELECT unnest(generate_series(
                time_bucket(INTERVAL {slide} SECOND, dateTime) - INTERVAL {size} SECOND
                    + INTERVAL {slide} SECOND,
                time_bucket(INTERVAL {slide} SECOND, dateTime),
                INTERVAL {slide} SECOND)) AS start) w
        GROUP BY ALL)
    SELECT auction, num, starttime, endtime FROM bids
    QUALIFY num = max(num) OVER (PARTITION BY starttime)
"""
RANKS = """
    count(*), count(*) FILTER (price < 10000),
    count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000)"""
OF_KIND = """
    count(DISTINCT {0}), count(DISTINCT {0}) FILTER (price < 10000),
    count(DISTINCT {0}) FILTER (price >= 10000 AND price < 1000000),
    count(DISTINCT {0}) FILTER (price >= 1000000)"""
DAY = "strftime(dateTime, '%Y-%m-%d')"
BY_DEFINITION = {
    "q5": HOP.format(size=10, slide=2),
    "q5_overlap60": HOP.format(size=60, slide=1),
    "q7": """
        SELECT b.auction, b.price, b.bidder, b.dateTime FROM bid b JOIN (
            SELECT time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS ends,
                   max(price) AS price
            FROM bid GROUP BY ends) w
        ON b.price = w.price AND b.dateTime BETWEEN ends - INTERVAL 10 SECOND AND ends""",
    "q7_rank": """
        SELECT auction, price, bidder, dateTime FROM bid
        QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL 10 SECOND, dateTime))""",
    "q8": """
        SELECT DISTINCT p.id, name, time_bucket(INTERVAL 10 SECOND, p.dateTime)
        FROM person p JOIN auction a ON p.id = a.seller
        AND time_bucket(INTERVAL 10 SECOND, p.dateTime)
            = time_bucket(INTERVAL 10 SECOND, a.dateTime)""",
    "q11": """
        SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECOND FROM (
            SELECT *, sum(CAST(dateTime > before + INTERVAL 10 SECOND AS INT))
                OVER (PARTITION BY bidder ORDER BY dateTime) AS session
            FROM (SELECT *, lag(dateTime, 1, dateTime)
                      OVER (PARTITION BY bidder ORDER BY dateTime) AS before FROM bid))
        GROUP BY bidder, session""",
    "q12": "SELECT bidder, count(*) FROM bid GROUP BY bidder",
    "q15": f"""
        SELECT {DAY}, {RANKS}, {OF_KIND.format("bidder")}, {OF_KIND.format("auction")}
        FROM bid GROUP BY ALL""",
    "q16": f"""
        SELECT channel, {DAY}, max(strftime(dateTime, '%H:%M')), {RANKS},
               count(DISTINCT bidder), count(DISTINCT auction)
        FROM bid GROUP BY ALL""",
    "q17": f"""
        SELECT auction, {DAY}, {RANKS}, min(price), max(price), avg(price), sum(price)
        FROM bid GROUP BY ALL""",
    # The order of two bids with the same price is undefined, so only prices are compared.
    "q19": """
        SELECT auction, price FROM bid
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC) <= 10""",
}
