-- Monitor new users: who came and opened an auction in the same 10 seconds?
SELECT p.id, p.name, p.starttime
FROM (
  SELECT id, name, window.start AS starttime, window.end AS endtime
  FROM person
  GROUP BY id, name, window(dateTime, '10 seconds')
) p
JOIN (
  SELECT seller, window.start AS starttime, window.end AS endtime
  FROM auction
  GROUP BY seller, window(dateTime, '10 seconds')
) a ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime
