"""The trading application in one command: exchange, market, a mill with views of the book, a server, strategies."""
