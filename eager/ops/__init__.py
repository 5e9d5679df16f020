"""The ops, each declared once, by family."""
