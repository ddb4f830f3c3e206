"""The adapter of dbt for Tidemill."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.tidemill.connections import TidemillCredentials
from dbt.adapters.tidemill.impl import TidemillAdapter
from dbt.include import tidemill

Plugin = AdapterPlugin(
    adapter=TidemillAdapter,
    credentials=TidemillCredentials,
    include_path=tidemill.PACKAGE_PATH,
    dependencies=["postgres"],
)
