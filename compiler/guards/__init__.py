"""Whether what a captured run has read still holds."""
