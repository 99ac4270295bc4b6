SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE hive_metastore.sales.orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY window_end
