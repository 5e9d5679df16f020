"""What a run reads of the world around it, and what it does to it."""
