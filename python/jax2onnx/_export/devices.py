"""Arrays on accelerators, or in pieces on several devices: copied to the host one at a time, while
they are written, without a copy that stays behind.

`numpy.asarray` would leave one: JAX keeps each host copy of an array that it hands out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

Fetch = Callable[[], "np.ndarray[Any, Any]"]


def fetch_of(array: Any) -> Fetch | None:
    """What copies an array to the host; None if the host can read it where it is."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return None
    devices: set[Any] = array.sharding.device_set
    if len(devices) == 1 and _is_host(next(iter(devices))):
        return None
    return partial(_fetch, array)


def _fetch(array: jax.Array) -> "np.ndarray[Any, Any]":
    if array.is_deleted():
        raise RuntimeError("an array of the model was deleted before the model was written")
    if not array.is_fully_addressable:
        raise RuntimeError("an array of the model is partly on devices of other processes")
    shards = [shard for shard in array.addressable_shards if shard.replica_id == 0]
    if len(shards) == 1 and shards[0].data.shape == array.shape:
        return _host_copy(shards[0].data)
    whole = np.empty(array.shape, array.dtype)
    for shard in shards:
        whole[shard.index] = _host_copy(shard.data)
    return whole


def _host_copy(piece: jax.Array) -> "np.ndarray[Any, Any]":
    """A copy that only the caller holds."""
    if _is_host(next(iter(piece.devices()))):
        return np.asarray(piece)  # a view
    # Of an array that nobody else has seen: JAX would keep it with the array itself.
    return np.asarray(piece.copy())


def _is_host(device: Any) -> bool:
    return bool(device.platform == "cpu")
