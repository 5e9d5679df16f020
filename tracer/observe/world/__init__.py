"""What a run asks of the world, and shows it."""
