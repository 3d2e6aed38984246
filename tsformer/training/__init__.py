"""Training: the only room that knows Lightning."""
