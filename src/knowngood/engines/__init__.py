"""Engines: what is special about one kind of server, as values and nearly pure functions."""
