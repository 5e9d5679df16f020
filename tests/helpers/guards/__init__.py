"""What the tests of guards share: cases, a world that changes, and checks."""
