"""What a run computes: its ops and its memory."""
