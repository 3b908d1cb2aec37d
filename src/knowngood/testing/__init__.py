"""Public fakes and conformance suites, one per port, for plug-in authors too."""
