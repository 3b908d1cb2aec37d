"""The procedures, straight from top to bottom, over the ports: journal, server, launch, baseline, trial."""
