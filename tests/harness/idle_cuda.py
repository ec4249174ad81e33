"""Loads models in onnxruntime's CUDA provider on a machine without a GPU.

The provider is the real one, from `onnxruntime-gpu` in `build/cuda` (`make cuda`). NVIDIA's
libraries are replaced by empty ones, which a C compiler builds from the symbols that the provider
needs: their memory is the host's, and kernels do nothing. So sessions register kernels, place
nodes, insert copies and check for CUDA graphs as on a GPU. They cannot compute.

A process of its own does this, because its onnxruntime is another one:

    python tests/harness/idle_cuda.py kernels       prints the kernels of all providers
    python tests/harness/idle_cuda.py placements    reads paths of models, prints a line for each
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2] / "build" / "cuda"
PROVIDER = "CUDAExecutionProvider"

_HEAD = """
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
static long handle;
"""
_ALLOCATE = "int NAME(void** p, size_t n) { *p = malloc(n ? n : 1); return *p ? 0 : 2; }"
_FREE = "int NAME(void* p) { free(p); return 0; }"
_COPY = "int NAME(void* to, const void* from, size_t n) { memcpy(to, from, n); return 0; }"
_TEXT = 'const char* NAME(void) { return ""; }'
_VERSION = "int NAME(int* n) { *n = 13000; return 0; }"
_MAKE = "int NAME(void** p) { *p = &handle; return 0; }"
_NOTHING = "long NAME(void) { return 0; }"

# One device of compute capability 9.0 with 16 GB.
_FUNCTIONS = {
    "cudaDeviceGetAttribute": """int NAME(int* n, int which) {
        *n = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : 1024; return 0; }""",
    "cudaDriverGetVersion": _VERSION,
    "cudaFree": _FREE,
    "cudaFreeAsync": _FREE,
    "cudaFreeHost": _FREE,
    "cudaGetDeviceCount": "int NAME(int* n) { *n = 1; return 0; }",
    "cudaGetDevice": "int NAME(int* n) { *n = 0; return 0; }",
    "cudaGetDeviceProperties": """int NAME(char* p) {
        memset(p, 0, 512);
        *(size_t*)(p + 288) = (size_t)1 << 34;
        *(size_t*)(p + 296) = 49152;
        *(int*)(p + 308) = 32;
        *(int*)(p + 320) = 1024;
        *(int*)(p + 360) = 9;
        return 0; }""",
    "cudaGetErrorName": _TEXT,
    "cudaGetErrorString": _TEXT,
    "cudaHostAlloc": _ALLOCATE,
    "cudaMalloc": _ALLOCATE,
    "cudaMallocFromPoolAsync": _ALLOCATE,
    "cudaMallocHost": _ALLOCATE,
    "cudaMemGetInfo": """int NAME(size_t* free, size_t* all) {
        *free = *all = (size_t)1 << 34; return 0; }""",
    "cudaMemcpy": _COPY,
    "cudaMemcpyAsync": _COPY,
    "cudaRuntimeGetVersion": _VERSION,
    "cudnnDropoutGetStatesSize": "int NAME(void* to, size_t* n) { *n = 1024; return 0; }",
    "cudnnGetErrorString": _TEXT,
    "cudnnGetRNNWeightParams": """int NAME(
        void* to, void* layer, int which, size_t n, void* space, int id,
        void* matrix_type, void** matrix, void* bias_type, void** bias) {
        *matrix = *bias = space; return 0; }""",
    "cudnnGetTensorNdDescriptor": """int NAME(
        void* type, int asked, int* element, int* rank, int* sizes, int* strides) {
        *element = 0; *rank = asked;
        for (int i = 0; i < asked; i++) sizes[i] = strides[i] = 1;
        return 0; }""",
    "cudnnGetRNNWeightSpaceSize": """int NAME(void* to, void* layer, size_t* n) {
        *n = 1 << 20; return 0; }""",
}
# The provider loads this library itself and asks for its functions by name.
_CUDNN = re.compile(rb"\0(cudnn[A-Z]\w+)(?=\0)")
_MAKERS = re.compile(r"Create(_v2|WithFlags)?$|Create\w*Descriptor$")


@dataclass(frozen=True)
class Placement:
    """What the provider does with a model."""

    on_cpu: list[str]
    """The operators of the nodes that run on the CPU."""
    copies: int
    """The number of copies between the CPU and the GPU inside the graph."""
    error: str = ""
    """The reason why the session cannot be created."""


def is_installed() -> bool:
    return (PACKAGE / "onnxruntime").is_dir()


def kernels() -> list[dict[str, Any]]:
    """Returns onnxruntime's list of kernels."""
    found: list[dict[str, Any]] = json.loads(_call("kernels"))
    return found


def placements(paths: list[Path], capture: bool = False) -> list[Placement]:
    """Loads models, and asks for CUDA graphs if `capture` is set."""
    lines = _call("capture" if capture else "placements", "\n".join(map(str, paths))).splitlines()
    return [Placement(**json.loads(line)) for line in lines]


def _call(verb: str, text: str = "") -> str:
    environment = os.environ | {
        "PYTHONPATH": str(PACKAGE),
        "LD_LIBRARY_PATH": str(_libraries()),
    }
    command = [sys.executable, __file__, verb]
    done = subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the provider failed: {done.stderr[-2000:]}")
    return done.stdout


def _libraries() -> Path:
    """Builds the empty libraries, and returns their folder."""
    folder = PACKAGE / "idle"
    if folder.is_dir():
        return folder
    part = folder.with_suffix(f".{os.getpid()}")
    part.mkdir()
    for name, symbols in _needed().items():
        source = _HEAD
        for symbol in sorted(symbols):
            default = _MAKE if _MAKERS.search(symbol) else _NOTHING
            source += _FUNCTIONS.get(symbol, default).replace("NAME", symbol) + "\n"
        versions = part / "versions"
        versions.write_text(f"{name} {{ global: *; }};\n")
        command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(part / name)]
        if name.startswith(("libcublas", "libcudart", "libcudnn", "libcurand")):
            command.append(f"-Wl,--version-script={versions}")
        subprocess.run([*command, "-x", "c", "-"], input=source, text=True, check=True)
    with contextlib.suppress(OSError):  # Another process may be faster.
        part.rename(folder)
    return folder


def _needed() -> dict[str, set[str]]:
    """Returns NVIDIA's libraries that the providers need, and the symbols in each."""
    libraries: dict[str, set[str]] = defaultdict(set)
    for provider in ("cuda", "tensorrt"):
        library = PACKAGE / "onnxruntime" / "capi" / f"libonnxruntime_providers_{provider}.so"
        functions = _CUDNN.findall(library.read_bytes())
        libraries["libcudnn.so.9"].update(name.decode() for name in functions)
        for name in re.findall(r"\[(lib(?:cu|nv)\S+)\]", _output("readelf", "-d", library)):
            libraries[name] |= set()
        for symbol in re.findall(r" U (\S+)", _output("nm", "-D", "--undefined-only", library)):
            name, _, version = symbol.partition("@")
            if version.startswith("libcu"):
                libraries[version].add(name)
            elif re.match(r"cu[A-Z]", name):
                libraries["libcuda.so.1"].add(name)
            elif name.endswith("_INTERNAL") or re.match(r"(get|init)[A-Z]", name):
                parser = "Parser" in name
                libraries["libnvonnxparser.so.10" if parser else "libnvinfer.so.10"].add(name)
    return libraries


def _output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def _list_kernels() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    found = [
        {
            "provider": kernel.provider,
            "domain": kernel.domain,
            "op": kernel.op_name,
            "versions": kernel.version_range,
            "types": kernel.type_constraints,
        }
        for kernel in get_all_opkernel_def()
    ]
    print(json.dumps(found))


def _place(path: str, capture: bool) -> dict[str, Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    optimized = f"{path}.optimized"
    options.optimized_model_filepath = optimized
    settings = {"enable_cuda_graph": "1"} if capture else {}
    try:
        session = ort.InferenceSession(path, options, providers=[(PROVIDER, settings)])
    except Exception as error:
        return {"on_cpu": [], "copies": 0, "error": str(error)}
    parts = session.get_provider_graph_assignment_info()
    on_cpu = [n.op_type for part in parts if part.ep_name != PROVIDER for n in part.get_nodes()]
    # The names of operators are enough, and the package onnx may not be there.
    text = Path(optimized).read_bytes()
    Path(optimized).unlink()
    copies = len(re.findall(rb"\x22[\x0c\x0e]Memcpy(?:To|From)Host", text))
    return {"on_cpu": sorted(on_cpu), "copies": copies}


def main(verb: str) -> None:
    if verb == "kernels":
        _list_kernels()
        return
    for line in sys.stdin.read().splitlines():
        print(json.dumps(_place(line, verb == "capture")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
