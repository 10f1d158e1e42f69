"""A convolution and an LSTM over words: the paper's network for IMDB (Table 3)."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import checks
from anchorwalk.networks import layers
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Key


def cnn_lstm(
    words: int = 20_000,
    embedding: int = 128,
    filters: int = 64,
    width: int = 5,
    pool: int = 4,
    cell: int = 128,
    classes: int = 2,
) -> Network:
    """A network over sequences of word numbers; equal arguments give the same functions.

    Embedding; convolution along time, valid, ReLU; max pool; LSTM; a dense layer on the last state. With the
    defaults it has 20,000 * 128 + (5 * 128 * 64 + 64) + ((64 + 128) * 4 * 128 + 4 * 128) + (128 * 2 + 2) = 2,700,098
    parameters. Weights start truncated-normal with variance 1 / fan-in, the embedding as a standard normal cut off
    at two, biases at zero.

    Args:
        words: Size of the vocabulary; a row is numbers from 0 to `words` - 1. Any other number makes that row's
            outputs NaN, and so is reported rather than read as some other word.
        embedding: Length of a word's vector.
        filters: Channels of the convolution.
        width: Words that the convolution sees at once.
        pool: Places over which the max pool goes.
        cell: Units of the LSTM.
        classes: Number of outputs.

    Raises:
        InvalidInput: A size that is no whole number above zero. `apply` refuses rows that are not whole numbers, or
            are too short for one place of the pool.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from anchorwalk.benchmark.networks import cnn_lstm
        >>> network = cnn_lstm()
        >>> params = jax.eval_shape(network.init, jax.random.key(0))
        >>> sum(leaf.size for leaf in jax.tree.leaves(params))
        2700098
        >>> jax.eval_shape(network.apply, params, jnp.zeros((3, 100), jnp.uint16)).shape
        (3, 2)
    """
    sizes = {
        "words": words,
        "embedding": embedding,
        "filters": filters,
        "width": width,
        "pool": pool,
        "cell": cell,
        "classes": classes,
    }
    return _cnn_lstm(*(checks.count(f"cnn_lstm({name}=)", size) for name, size in sizes.items()))


@lru_cache
def _cnn_lstm(words: int, embedding: int, filters: int, width: int, pool: int, cell: int, classes: int) -> Network:
    shortest = width + pool - 1

    def init(key: Key) -> dict[str, Any]:
        keys = jax.random.split(key, 4)
        return {
            "conv_0": layers.init_conv(keys[1], (width,), embedding, filters),
            "dense_0": layers.init_dense(keys[3], cell, classes),
            "embedding": jax.random.truncated_normal(keys[0], -2.0, 2.0, (words, embedding)),
            "lstm": layers.init_lstm(keys[2], filters, cell),
        }

    def apply(params: dict[str, Any], x: Array) -> Array:
        if not jnp.issubdtype(x.dtype, jnp.integer) or x.ndim != 2 or x.shape[1] < shortest:
            given, expected = f"{x.dtype} of shape {x.shape}", f"integers of shape (rows, {shortest} words or more)"
            checks.reject("cnn_lstm.apply(x=)", given, expected, "Pass the words' numbers, rows padded to one length.")
        lookup = params["embedding"].at[x]
        x = lookup.get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)
        x = layers.max_pool(jax.nn.relu(layers.conv(params["conv_0"], x, padding="valid")), pool)
        return layers.dense(params["dense_0"], layers.lstm(params["lstm"], x))

    return Network(init, apply)
