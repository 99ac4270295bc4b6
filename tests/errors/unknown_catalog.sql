SET 'execution.runtime-mode' = 'batch';
USE CATALOG hive_metastore;
