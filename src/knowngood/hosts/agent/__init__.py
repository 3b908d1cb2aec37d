"""The undo journal as it runs on the host: standard library only, Python 3.8 or newer, nothing of knowngood imported.

Its modules are also joined into one file (``hosts.bundle``) that is left on the host as ``recover.py``.
"""
