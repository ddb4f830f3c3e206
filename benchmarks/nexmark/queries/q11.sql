-- User sessions: bids of a user with at most 10 seconds between one and the next.
-- As window functions; standard/q11.sql has session_window, and a test compares the two.
SELECT bidder, COUNT(*) AS bid_count, MIN(dateTime) AS starttime, MAX(dateTime) + INTERVAL 10 SECONDS AS endtime
FROM (
  SELECT bidder, dateTime, SUM(starts) OVER (PARTITION BY bidder ORDER BY dateTime) AS session
  FROM (
    SELECT bidder, dateTime,
      IF(LAG(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) >= dateTime - INTERVAL 10 SECONDS, 0, 1) AS starts
    FROM bid
  )
)
GROUP BY bidder, session
