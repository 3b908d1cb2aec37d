"""Where a step's milliseconds go: collectives, floors, budget, contradictions, and what to try next. Pure."""
