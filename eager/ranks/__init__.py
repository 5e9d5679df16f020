"""The processes of a program that runs many times at once: who they are, and the bytes that MPI carries."""
