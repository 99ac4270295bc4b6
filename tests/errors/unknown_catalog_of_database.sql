SHOW TABLES IN hive_metastore.sales
