"""Random programs, the same ones each time; `make fuzz` runs others for longer."""

import time

import pytest

from fuzz.check import Seen, check
from fuzz.generate import program
from fuzz.shrink import reproduction, shrink

SECONDS = 50
"""Of CPU time: a slow machine checks fewer programs, not for longer."""
COUNT = 60


@pytest.mark.filterwarnings("ignore")
def test_random_programs() -> None:
    seen, start = Seen(), time.process_time()
    for seed in range(COUNT):
        failure = check(program(seed), seen)
        if failure is not None:
            small = shrink(failure)
            pytest.fail(f"seed {seed}, {small.stage}: {small.message}\n\n{reproduction(small)}")
        if time.process_time() > start + SECONDS:
            break
    assert seen.programs > 5
    assert len(seen.operations) > 40
