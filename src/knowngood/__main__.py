"""``python -m knowngood``."""

from knowngood.faces.cli import main

main()
