"""Files of one format that are read without a mill: listed, and divided into splits."""
