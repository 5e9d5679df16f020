"""What every room of the compiler uses: locks, debugging, patience, sizes as expressions, the op `fetch`."""
