CREATE TABLE orders USING orderbook OPTIONS (
  path '{url}', greeting 'trace {symbol} {{lines}} {{last}}\n', book 'both', partialCancels 'true',
  brokers '10', deterministic 'true');

CREATE MATERIALIZED VIEW bids AS SELECT t, id, broker_id, volume, price FROM orders WHERE side = 'B';

CREATE MATERIALIZED VIEW asks AS SELECT t, id, broker_id, volume, price FROM orders WHERE side = 'S';

-- The book by price: what the demo compares with the exchange's own, epoch by epoch.
CREATE MATERIALIZED VIEW depth AS
SELECT side, price, SUM(volume) AS volume, COUNT(*) AS orders FROM orders GROUP BY side, price;

-- Value of the bids in the top quarter of the volume by price.
CREATE MATERIALIZED VIEW vwap AS
SELECT COALESCE(SUM(b.price * b.volume), 0) AS vwap
FROM bids b
WHERE 0.25 * (SELECT SUM(total.volume) FROM bids total)
      > (SELECT COALESCE(SUM(better.volume), 0) FROM bids better WHERE better.price > b.price);

-- Per broker, by how much the asks exceed the bids, over pairs whose prices are far apart.
CREATE MATERIALIZED VIEW axfinder AS
SELECT b.broker_id, SUM(a.volume - b.volume) AS axfinder
FROM bids b JOIN asks a ON b.broker_id = a.broker_id
WHERE a.price - b.price > 1000 OR b.price - a.price > 1000
GROUP BY b.broker_id;

-- Per broker, how the value of its bids changes from earlier to later ones.
CREATE MATERIALIZED VIEW brokerspread AS
SELECT later.broker_id, SUM(later.volume * later.price - earlier.volume * earlier.price) AS spread
FROM bids later JOIN bids earlier ON later.broker_id = earlier.broker_id
WHERE later.t > earlier.t
GROUP BY later.broker_id;

-- Per broker, half the square of the value of its bids.
CREATE MATERIALIZED VIEW brokervariance AS
SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS variance
FROM bids x JOIN bids y ON x.broker_id = y.broker_id
GROUP BY x.broker_id;

-- Spread over all pairs of orders that are large on their side.
CREATE MATERIALIZED VIEW pricespread AS
SELECT COALESCE(SUM(a.price - b.price), 0) AS spread
FROM bids b CROSS JOIN asks a
WHERE b.volume > 0.0001 * (SELECT SUM(volume) FROM bids)
  AND a.volume > 0.0001 * (SELECT SUM(volume) FROM asks);

-- Per broker, the value of the asks over that of its bids, both within the top quarter of the volume by price.
CREATE MATERIALIZED VIEW missedtrades AS
SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) AS missed
FROM bids b CROSS JOIN asks a
WHERE 0.25 * (SELECT SUM(total.volume) FROM asks total)
      > (SELECT COALESCE(SUM(better.volume), 0) FROM asks better WHERE better.price > a.price)
  AND 0.25 * (SELECT SUM(total.volume) FROM bids total)
      > (SELECT COALESCE(SUM(better.volume), 0) FROM bids better WHERE better.price > b.price)
GROUP BY b.broker_id;
