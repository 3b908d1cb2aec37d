"""The use cases, and the one place where rooms are put together."""
