-- Hot items: the auctions with the most bids in the last 10 seconds, every 2 seconds.
WITH counted AS (
  SELECT auction, COUNT(*) AS num, window.start AS starttime, window.end AS endtime
  FROM bid
  GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
)
SELECT c.auction, c.num
FROM counted c
JOIN (
  SELECT MAX(num) AS maxn, starttime, endtime FROM counted GROUP BY starttime, endtime
) m ON c.starttime = m.starttime AND c.endtime = m.endtime AND c.num >= m.maxn
