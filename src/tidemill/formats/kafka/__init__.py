"""Messages of Kafka as rows: their values in a format of the registry, or the columns that every message has."""
