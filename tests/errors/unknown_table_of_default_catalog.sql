SELECT * FROM default_catalog.default_database.flihgts
