"""The nodes of plans of tasks: what they give, and the steps that they become."""
