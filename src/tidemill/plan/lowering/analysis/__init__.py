"""What the lowering asks of nodes: where their rows are, which columns they need, what is static, small or late."""
