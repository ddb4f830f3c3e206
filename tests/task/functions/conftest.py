import pytest
import spark_oracle
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def oracle() -> SparkSession:
    spark = spark_oracle.session()
    spark_oracle.prepare(spark)
    return spark
