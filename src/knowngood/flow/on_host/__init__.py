"""Scripts that run on the host in an interpreter of its own: standard library only, Python 3.8 or newer."""
