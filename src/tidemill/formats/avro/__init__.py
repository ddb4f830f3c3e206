"""Avro: values that were written by a schema, and files of them."""
