"""Learning-rate schedules: the base, those with a formula, the cyclic ones, and the composed ones."""
