-- Windows of 10 seconds: bids of each user. The benchmark takes them by processing time, this by event time.
SELECT bidder, COUNT(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid
GROUP BY bidder, window(dateTime, '10 seconds')
