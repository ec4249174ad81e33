"""A fixed sample of JAX's own corpus, checked against the known gaps."""

import pytest

from conformance import corpus
from conformance.known_gaps import surprise

SAMPLE = corpus.sample()


@pytest.mark.parametrize("group", SAMPLE)
def test_group(group):
    surprises = [surprise(case.name, case.evaluate()) for case in SAMPLE[group]]
    assert not any(surprises), "\n".join(filter(None, surprises))
