"""gym under its old name."""

from gymnasium import *  # noqa: F403
