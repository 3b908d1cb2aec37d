"""Where events and artifacts are kept."""
