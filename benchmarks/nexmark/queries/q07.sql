-- Highest bid: of each 10 seconds.
SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra
FROM bid b
JOIN (
  SELECT MAX(price) AS maxprice, window.end AS dateTime
  FROM bid
  GROUP BY window(dateTime, '10 seconds')
) m ON b.price = m.maxprice
WHERE b.dateTime BETWEEN m.dateTime - INTERVAL 10 SECONDS AND m.dateTime
