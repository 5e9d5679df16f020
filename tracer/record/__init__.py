"""What a run computes: its ops, its memory, its loops."""
