DROP TABLE flihgts;
