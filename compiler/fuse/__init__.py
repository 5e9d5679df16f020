"""Which equations share a loop nest, and the nest that they become."""
