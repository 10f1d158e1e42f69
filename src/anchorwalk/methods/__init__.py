"""The methods, one file each: anchored ensembles (Alg. 1), sequential ones (Alg. 2), and what they are compared with.

`base` has the contract, `member` what trained methods share, `mode` what begins at a mode, `minibatch` noisy steps,
`gaussian` draws from normals, `half` low precision, `density` and `hmc_kernel` the parts of `hmc`.
"""
