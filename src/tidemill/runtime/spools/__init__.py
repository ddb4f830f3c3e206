"""Durable spools of tables whose rows do not lie in files of others."""
