"""Plays the kubelet and the container runtime for the tests' nodes; see README.md beside ../."""
