CREATE VIEW v (first, second, third) AS SELECT carrier, origin FROM flights
