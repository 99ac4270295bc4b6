USE CATALOG spark_catalogue;
