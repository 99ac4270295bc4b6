USE CATALOG default_catalog;
USE defaults;
