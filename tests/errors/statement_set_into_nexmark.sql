CREATE TABLE auctions (event_type INT) WITH ('connector' = 'nexmark', 'events.num' = '100');
CREATE TABLE printed (n INT) WITH ('connector' = 'print');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO printed SELECT 1;
  INSERT INTO auctions SELECT 2;
END;
