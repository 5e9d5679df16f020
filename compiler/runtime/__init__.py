"""What runs beside compiled code: the thread pool, native calls, memory."""
