CREATE VIEW v (first) AS SELECT carrier, origin FROM flights
