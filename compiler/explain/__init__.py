"""What was compiled and what was not, why, and what to do about it."""
