"""Copies of arrays on accelerators, or of arrays that are sharded over devices. Each is made while
the array is written, and freed afterwards.

`numpy.asarray` would leave a copy behind: JAX keeps every host copy that it returns.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

Fetch = Callable[[], "np.ndarray[Any, Any]"]


def fetch_of(array: Any) -> Fetch | None:
    """Returns a function that copies an array to the host, or None if the array is on the host."""
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
    """Copies an array. Only the caller holds the copy."""
    if _is_host(next(iter(piece.devices()))):
        return np.asarray(piece)  # a view
    # JAX keeps the host copy with the array, so copy an array that is dropped afterwards.
    return np.asarray(piece.copy())


def _is_host(device: Any) -> bool:
    return bool(device.platform == "cpu")
