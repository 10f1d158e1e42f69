"""Tests of the contracts of walks, likelihoods and methods, for a user's own.

Import `check_walk`, `check_likelihood`, `check_method`, `assert_standard_normal` and `moments` from here.
"""

from anchorwalk.testing.common import assert_standard_normal, moments
from anchorwalk.testing.likelihoods import check_likelihood
from anchorwalk.testing.methods import check_method
from anchorwalk.testing.walks import check_walk

__all__ = ["assert_standard_normal", "check_likelihood", "check_method", "check_walk", "moments"]
