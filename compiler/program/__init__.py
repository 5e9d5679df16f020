"""A graph as an executable program: the pipeline of the compiler, and rolled loops."""
