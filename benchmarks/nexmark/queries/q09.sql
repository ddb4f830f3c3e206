-- Winning bids: the highest bid of each auction, the earliest of several.
SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
  auction, bidder, price, bid_dateTime, bid_extra
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder, b.extra) AS rownum
  FROM auction a
  JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
)
WHERE rownum <= 1
