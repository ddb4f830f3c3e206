-- Average selling price by seller: of this and the ten auctions before it.
SELECT seller, AVG(price) OVER (
    PARTITION BY seller ORDER BY dateTime, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
  ) AS avg_price
FROM (
  SELECT a.id, a.seller, b.price, b.dateTime,
    ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.dateTime) AS rownum
  FROM auction a
  JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
)
WHERE rownum <= 1
