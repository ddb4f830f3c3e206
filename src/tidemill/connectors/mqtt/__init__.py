"""Messages of MQTT brokers: options, sessions, and what a message is in a spool."""
