"""Effects of rounds: a table of statements that do something to the world, and the programs they stand in."""
