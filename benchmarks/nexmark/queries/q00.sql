-- Pass through: the cost of reading and keeping.
SELECT auction, bidder, price, dateTime, extra
FROM bid
