"""Object stores: how they are reached, what their errors mean, and reading exactly one version of an object."""
