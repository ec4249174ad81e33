"""Settings of all tests: one device, no switches inherited from the shell, no silent skips."""

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import psutil
import pytest

from harness import not_run

# XLA's compiled programs are cached for the other workers and the next run. JAX's own switch turns
# this off: JAX_ENABLE_COMPILATION_CACHE=0.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / "build/xla"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# With JAX2ONNX_NO_SKIPS=1, a test that is skipped for an avoidable reason fails the run.
NO_SKIPS = os.environ.get("JAX2ONNX_NO_SKIPS", "0") not in ("", "0")
# The things that this machine cannot have, whose absence makes a skip unavoidable: `browser npm`.
WITHOUT = os.environ.get("JAX2ONNX_WITHOUT", "").split()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        action="store_true",
        help="run a sample of the tests that are not slow, of every file and of most functions",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--sample"):
        return
    left_out = ("slow", "usual_xla")
    quick = [item for item in items if not any(map(item.get_closest_marker, left_out))]
    wanted = not_run.sampled(
        quick, lambda item: (item.nodeid.partition("::")[0], item.nodeid.partition("[")[0])
    )
    config.hook.pytest_deselected(items=list({*items} - {*wanted}))
    items[:] = wanted


def _skips(config: pytest.Config) -> list[str]:
    """Returns the reasons for skipped tests."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    return [report.longrepr[2].removeprefix("Skipped: ") for report in reports]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # Workers report to the process that started them, which sees all tests.
    is_worker = hasattr(session.config, "workerinput")
    if (
        NO_SKIPS
        and not is_worker
        and exitstatus == 0
        and not_run.avoidable(_skips(session.config), WITHOUT)
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in not_run.summary(_skips(terminalreporter.config)):
        terminalreporter.write_line(line, yellow=not NO_SKIPS, red=NO_SKIPS)
    if terminalreporter.config.getoption("--sample"):
        terminalreporter.write_line("This was a sample: `make test-all` runs every test.")


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("JAX2ONNX_"):
            monkeypatch.delenv(name)


# A process with more memory than this frees JAX's compiled programs. Otherwise the tests of all
# files take five gigabytes in each worker.
LARGEST_PROCESS = 2 << 30


@pytest.fixture(autouse=True, scope="module")
def _little_memory() -> Iterator[None]:
    yield
    if psutil.Process().memory_info().rss > LARGEST_PROCESS:
        jax.clear_caches()
        gc.collect()
        # glibc keeps freed memory. Other C libraries have no such function.
        if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
            trim(0)


@pytest.fixture
def double() -> Iterator[dict[str, bool]]:
    """Yields the options of `to_onnx` for double precision, and enables it in JAX."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield {"enable_double_precision": True}
    jax.config.update("jax_enable_x64", before)
