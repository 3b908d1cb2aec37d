"""Benchmark clients. The built-in one runs in its own process and needs nothing but the standard library there."""
