"""Pure reasoning over evidence: no I/O, no clock, randomness only from a given seed."""
