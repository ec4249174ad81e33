"""The list of known gaps, and the check of results against it."""

import re

import pytest

from conformance import known_gaps
from conformance.evaluate import Result


@pytest.fixture(autouse=True)
def _ledger(monkeypatch):
    entries = [(re.compile("eig_.*"), "no such operator")]
    monkeypatch.setattr(known_gaps, "known_gaps", lambda: entries)


@pytest.mark.parametrize(
    ("name", "outcome", "fine"),
    [
        ("sin_1", "match", True),
        ("sin_1", "skipped", True),
        ("sin_1", "unsupported", False),
        ("sin_1", "mismatch", False),
        ("eig_1", "unsupported", True),
        ("eig_1", "newer", True),
        ("sin_1", "newer", False),
        ("eig_1", "match", False),
        ("eig_1", "mismatch", False),
        ("eig_1", "refused", False),
    ],
)
def test_surprises(name, outcome, fine):
    assert (known_gaps.surprise(name, Result(outcome, "why")) == "") == fine
