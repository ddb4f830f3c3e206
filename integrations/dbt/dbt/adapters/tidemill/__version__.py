"""The version of the adapter, which dbt looks for here."""

version = "0.1.0"
