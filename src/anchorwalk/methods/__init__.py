"""The methods, one file each: anchored ensembles (Alg. 1), sequential ones (Alg. 2), and what they are compared with.

Import `base` for the contract, and a method from its own file: `sae`, `ae`, `deep_ensemble`, `map`, `hmc`. `member` has
what trained methods share, `density` what samplers of the posterior share, `hmc_kernel` the iterations of `hmc`.
"""
