"""The graph IR: what a run computed; its text, its passes, its derivative."""
