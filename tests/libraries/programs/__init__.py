"""A program for each library, named like it: `CASES` has what builds each of its cases."""
