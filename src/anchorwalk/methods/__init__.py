"""The methods, one file each: anchored ensembles (Alg. 1), sequential ones (Alg. 2), and what they are compared with.

Import from the modules: `methods.ae`, `methods.sae`, `methods.deep_ensemble`, `methods.map`. They share `methods.base`
(members and states) and `methods.chain` (Algorithms 1 and 2, line by line).
"""
