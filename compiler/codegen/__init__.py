"""From the kernel IR to LLVM IR, and the kernels that are compiled already."""
