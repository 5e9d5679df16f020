"""Programs that leave captures for later processes, and what may change in between."""
