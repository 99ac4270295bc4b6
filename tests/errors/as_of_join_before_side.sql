SELECT * FROM flights AS f LEFT ASOF JOIN flights AS g ON f.airport = g.airport;
