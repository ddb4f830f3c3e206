"""Takes over rows and changes of tables of databases into files of the root."""
