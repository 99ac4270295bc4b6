SELECT a.carrier
FROM flights AS a JOIN spark_catalogue.default.carriers AS b ON a.carrier = b.carrier
