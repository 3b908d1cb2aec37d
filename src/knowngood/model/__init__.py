"""The values of the domain: frozen, without I/O, clock or behaviour beyond what follows from their fields."""
