"""Topics of Kafka: which partitions there are, how far they reach, and their messages from an offset on."""
