"""Where servers run: the machine at hand, its processes, its undo journal."""
