"""Readers of what people have: profiles, logs, tables of other tools. Each turns one file into one value."""
