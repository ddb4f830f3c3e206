-- Readings of sensors as they come to a bucket: one object a batch, in directories by day. What is in braces is filled in
-- by run.py; in the cloud a path and perhaps a region are enough, and credentials come from the environment.
CREATE TABLE readings (sensor INT, at TIMESTAMP, celsius DOUBLE)
  USING json OPTIONS (path 's3://sensors/readings/**/*.json{,.gz}',
                      endpoint '{endpoint}', allowHttp 'true', awsAccessKey '{key}', awsSecretKey '{secret}');
CREATE TABLE sensors
  USING csv OPTIONS (path 's3://sensors/sensors.csv', header 'true', inferColumnTypes 'true',
                     endpoint '{endpoint}', allowHttp 'true', awsAccessKey '{key}', awsSecretKey '{secret}');

CREATE MATERIALIZED VIEW by_room AS
  SELECT s.room, COUNT(*) AS readings, AVG(r.celsius) AS celsius, MAX(r.at) AS latest
  FROM readings r JOIN sensors s ON r.sensor = s.sensor GROUP BY s.room;
