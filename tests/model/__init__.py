"""The protocols of shared memory as small programs, run through every interleaving that there is."""
