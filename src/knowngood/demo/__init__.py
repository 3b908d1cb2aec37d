"""The demo: a small model, a lab around it, and hypotheses that show every outcome."""
