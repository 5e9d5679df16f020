"""Writing LLVM IR, and machine code from it."""
