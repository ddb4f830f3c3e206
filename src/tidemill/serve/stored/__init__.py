"""What a server keeps: results in memory, clients in a database, its address in a file."""
