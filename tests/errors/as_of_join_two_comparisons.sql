SELECT f.airport, g.airport AS other
FROM flights AS f ASOF JOIN flights AS g MATCH_CONDITION (f.scheduled >= g.scheduled) ON f.delay < g.delay;
