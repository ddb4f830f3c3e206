"""Messages of MQTT as rows: their payloads in a format of the registry, or the columns that every message has."""
