"""Evaluates cases in separate processes, which may crash or hang."""

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection

from conformance.evaluate import FAILED, Result

_LIFETIME = 400  # the number of cases per process: JAX never frees compiled code
_START = 300.0
_TIMEOUT = 120.0


def evaluate_all(names: Iterable[str], jobs: int, report: Callable[[str, Result], None]) -> None:
    """Evaluates cases by name. Reports results one at a time, as they arrive."""
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        todo.put(name)
    lock = threading.Lock()
    failures: list[BaseException] = []

    def serve() -> None:
        worker = None
        try:
            while not failures:
                name = todo.get_nowait()
                if worker is None:
                    worker = _Worker()
                result, alive = worker.evaluate(name)
                if not alive:
                    worker.stop()
                    worker = None
                with lock:
                    report(name, result)
        except queue.Empty:
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            if worker is not None:
                worker.stop()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class _Worker:
    """A process that evaluates one case at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, inner = context.Pipe()
        self._process = context.Process(target=_serve, args=(inner,), daemon=True)
        self._process.start()
        inner.close()
        self._served = 0
        if not self._pipe.poll(_START) or not self._pipe.recv():
            raise RuntimeError("a process that evaluates cases did not start")

    def evaluate(self, name: str) -> tuple[Result, bool]:
        """Returns the outcome of a case, and `True` if the process can take another one."""
        self._served += 1
        self._pipe.send(name)
        if not self._pipe.poll(_TIMEOUT):
            return Result(FAILED, f"no result after {_TIMEOUT:.0f} seconds"), False
        try:
            return self._pipe.recv(), self._served < _LIFETIME
        except EOFError:
            self._process.join()
            return Result(FAILED, f"the process died ({self._process.exitcode})"), False

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Connection) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    from conformance import corpus, walks

    known = {**corpus.cases(), **walks.calls()}
    pipe.send(True)
    served = 0
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        pipe.send(known[name].evaluate())
        served += 1
        if served % 100 == 0:
            jax.clear_caches()
