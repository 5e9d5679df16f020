"""What every room of the compiler uses: locks, debugging, sizes as expressions, the op `fetch`."""
