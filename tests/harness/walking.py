"""Helpers for the walks over JAX's modules."""

import pytest

from conformance import walks
from conformance.known_gaps import surprise

# `make coverage` makes all calls.
_CALLS_OF_A_FUNCTION = 2


def functions(module):
    """Returns a parameter for every function of a module that has calls."""
    calls = {}
    for name, call in walks.calls(module).items():
        calls.setdefault(call.function, {})[name] = call
    chosen = [dict(list(c.items())[:_CALLS_OF_A_FUNCTION]) for c in calls.values()]
    return pytest.mark.parametrize("calls", chosen, ids=list(calls))


def check(calls):
    """Checks that every call gives JAX's numbers, or is a known gap."""
    surprises = [surprise(name, call.evaluate()) for name, call in calls.items()]
    assert not any(surprises), "\n".join(filter(None, surprises))
