"""Reading a small table with NumPy and Arrow alone: to load the kernels takes longer than to read it without them."""
