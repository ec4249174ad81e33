"""`jax2onnx export`: `to_onnx` on the command line."""

import inspect
import io
import os
import re
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import jax2onnx
from harness.checking import run
from harness.waiting import PATIENCE, until
from jax2onnx import _core, to_onnx
from jax2onnx._export import progress

MODEL = """
import jax
import jax.numpy as jnp

import scaling


def predict(x, y, *, scale=1.0):
    return jnp.tanh(x @ y) * scaling.FACTOR * scale


class Net:
    def __init__(self):
        self.weight = jnp.ones((3, 2))

    def __call__(self, x):
        return x @ self.weight


net = Net()
number = 3


def make():
    return Net()


def callback(x):
    return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((2,), jnp.float32), x)


def broken(x):
    return x + jnp.zeros(7)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "scaling.py").write_text("FACTOR = 2.0\n")
    return tmp_path


def in_a_process(folder, *arguments):
    command = [sys.executable, "-m", "jax2onnx", "export", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def export(folder, monkeypatch, capfd):
    """Runs the command in this process, where JAX is imported already."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())

    def run_here(*arguments):
        before = set(sys.modules)
        status = _core.main(["export", *arguments])
        for name in sys.modules.keys() - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]
        return subprocess.CompletedProcess(arguments, status, *capfd.readouterr())

    return run_here


def test_a_function_with_symbolic_and_keyword_arguments(folder):
    done = in_a_process(
        folder,
        "model.py:predict",
        "--input=f32[B,3]",
        "-i=f32[3, 4]",
        "--input=scale=f32[]",
        "-o=out/model.onnx",
        "--stacktrace",
        "--opset=22",
        "--set=model_name=net",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("out/model.onnx: ")
    model = onnx.load(folder / "out/model.onnx")
    assert (model.opset_import[0].version, model.graph.name) == (22, "net")
    assert [value.name for value in model.graph.input] == ["x", "y", "scale"]
    sites = {p.value for n in model.graph.node for p in n.metadata_props if "callsite" in p.key}
    assert sites == {"predict:9"}
    x, y = np.ones((5, 3), np.float32), np.full((3, 4), 0.1, np.float32)
    found = run(model, [x, y, np.float32(3)])
    np.testing.assert_allclose(found[0], np.tanh(x @ y) * 6, rtol=1e-5)


@pytest.mark.parametrize("name", ["net", "make()", "net.__call__"])
def test_objects_methods_and_results_of_calls(folder, export, name):
    done = export(f"model.py:{name}", "--input", "[B,3]", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    [path] = folder.glob("*.onnx")
    assert onnx.load(path).graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.slow
def test_a_module_by_its_name_is_the_same_model(folder, monkeypatch):
    assert in_a_process(folder, "model:net", "--input=f32[2,3]", "-o=a.onnx").returncode == 0
    assert in_a_process(folder, "model.py:net", "--input=f32[2,3]", "-o=b.onnx").returncode == 0
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


def test_assumptions_and_near_misses(folder, export):
    (folder / "norm.py").write_text("""import jax.numpy as jnp

def norm(x):
    d = x - x.mean(-1, keepdims=True)
    variance = (d * d).mean(-1, keepdims=True)
    return d / jnp.sqrt(variance + 1e-5), variance, x.max(-1)
""")
    arguments = ("norm.py:norm", "--input=f32[2,64]", "--missed", "--assume=no_nan")
    done = export(*arguments)
    assert done.returncode == 0
    assert "LayerNormalization at norm.py:6 stays elementary" in done.stderr
    model = onnx.load(folder / "norm.onnx")
    assert [p.value for p in model.metadata_props if p.key.endswith(".assume")] == ["no_nan"]
    assert "IsNaN" not in [node.op_type for node in model.graph.node]
    done = export("norm.py:norm", "--input=f32[2,64]", "--assume=no_nans")
    assert done.returncode == 2
    assert "did you mean 'no_nan'?" in done.stderr


WRONG = {
    "no colon": (["model.py"], "write FILE.py:FUNCTION"),
    "no file": (["absent.py:f"], "there is no file `absent.py`"),
    "no module": (["absent:f"], "there is no module `absent`"),
    "no function": (["model.py:predictt"], "it has Net, broken, callback"),
    "a function that returns the model": (["model.py:make", "--input=f32[2,3]"], "call it: load()"),
    "no file name": (["model.py:net", "--input=f32[2,3]", "-o."], "choose a file name"),
    "a class": (["model.py:Net"], "write model.py:Net()"),
    "a number": (["model.py:number"], "is of type int, which is not callable"),
    "no shape": (["model.py:net", "--input=f32"], "write type and shape"),
    "a type": (["model.py:net", "--input=f33[2]"], "the types are bool"),
    "a dimension": (["model.py:net", "--input=f32[2,-]"], "'-' is not a dimension"),
    "an option that is misspelt": (
        ["model.py:net", "--input=f32[2,3]", "--set", "compute_dtyp=float16"],
        "did you mean 'compute_dtype'?",
    ),
    "a dimension that is too large": (
        ["model.py:net", "--input=f32[99999999999999999999,3]"],
        "the largest dimension in ONNX is 9223372036854775807",
    ),
    "an option without a value": (
        ["model.py:net", "--set=opset"],
        "write --set opset=VALUE",
    ),
    "an option": (
        ["model.py:net", "--set=color=red"],
        "write OPTION=VALUE with one of: model_name",
    ),
    "a level": (["model.py:net", "--stacktrace=everything"], "[possible values: minimal, full"),
    "too few inputs": (["model.py:net"], "wrong-arguments"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_wrong_usage(folder, export, case):
    arguments, message = case
    done = export(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("**/*.onnx"))


@pytest.mark.parametrize(
    "option",
    ["-o=./{}", "--set=source_map={}", "--set=record_primitive_calls_file={}"],
)
@pytest.mark.parametrize("file", ["model.py", "again.py"])
def test_the_source_is_not_replaced(folder, export, option, file):
    (folder / "again.py").write_text("from model import net\n")
    before = (folder / file).read_text()
    done = export("again.py:net", "--input=f32[2,3]", option.format(file))
    assert done.returncode == 2
    assert "would overwrite the source file of the function" in done.stderr
    assert (folder / file).read_text() == before
    assert not list(folder.glob("*.onnx"))


def test_relative_imports_outside_a_package_have_advice(folder):
    (folder / "loose").mkdir()
    (folder / "loose" / "a.py").write_text("from .b import f\n")
    (folder / "loose" / "b.py").write_text("def f(x):\n    return x\n")
    done = in_a_process(folder, "loose/a.py:f", "--input=f32[2]")
    assert done.returncode == 2
    assert "`loose` has no `__init__.py`" in done.stderr
    assert "jax2onnx export loose.a:…" in done.stderr
    assert in_a_process(folder, "loose.a:f", "--input=f32[2]").returncode == 0


def test_64_bit_types_on_request(folder, export):
    double = "--set=enable_double_precision=True"
    assert export("model.py:net", "--input=f64[2,3]", double).returncode == 0
    [value] = onnx.load(folder / "net.onnx").graph.input
    assert value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE


def test_unsupported_functions_are_reported(folder, export):
    done = export("model.py:callback", "--input=f32[2]")
    assert done.returncode == 2
    assert done.stderr.startswith("UnsupportedError[unsupported-")
    assert "model.py:29" in done.stderr


def test_errors_of_the_function_keep_their_traceback(folder):
    done = in_a_process(folder, "model.py:broken", "--input=f32[2]")
    assert done.returncode == 2
    assert "line 33, in broken" in done.stderr
    assert not re.search(r"File .*/jax2onnx/_\w+/", done.stderr)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_long_exports_show_their_progress():
    terminal = Terminal()

    def slow(x):
        until(lambda: "tracing" in terminal.getvalue())
        return x + 1

    with progress.shown(terminal, after=0.05):
        to_onnx(slow, [(2,)])
    assert "█" not in terminal.getvalue().split("tracing")[0]
    assert re.search(r"tracing … \d+ s", terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[2K")


class Model:
    size, written = 3_000_000_000, 1_200_000_000


@pytest.mark.parametrize("terminal", [Terminal(), io.StringIO()], ids=["terminal", "notebook"])
def test_writing_shows_the_bytes_written(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "is_notebook", lambda: not terminal.isatty())
    shown = progress.shown if terminal.isatty() else progress.shown_in_notebook
    with shown(after=0.05):
        progress.stage("writing", Model())
        until(lambda: "writing" in terminal.getvalue())
    assert re.search(r"██▒ writing 1,200 of 3,000 MB … \d+ s", terminal.getvalue())
    assert terminal.isatty() == ("\x1b" in terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[2K" if terminal.isatty() else " \r")


def test_the_bytes_of_a_model_are_counted(tmp_path):
    weights = np.ones((1000, 1000), np.float32)
    models = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "stage", lambda name, what=None: models.append(what))
        path = to_onnx(
            lambda x: x @ weights, [(2, 1000)], return_mode="file", output_path=tmp_path / "m.onnx"
        )
    model = models[-1]
    assert model.written == model.size == os.path.getsize(path)


def test_programs_outside_of_notebooks_stay_quiet(capfd):
    assert not progress.is_notebook()
    with progress.shown_in_notebook(after=0.0):
        time.sleep(0.3)
    assert capfd.readouterr() == ("", "")


def test_short_exports_and_files_stay_quiet():
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with progress.shown(stream, after=PATIENCE):
            to_onnx(jnp.sin, [(2,)])
        assert stream.getvalue() == ""


def test_types_of_64_bits(folder, export):
    """As in Python: integers stay at the boundary, floats do not, and both have a warning."""
    done = in_a_process(folder, "model.py:net", "--input=i64[2,3]", "-o", "i.onnx")
    assert done.stderr.startswith("warning: [narrowed-inputs] JAX computes with 32 bits")
    assert onnx.load(folder / "i.onnx").graph.input[0].type.tensor_type.elem_type == 7
    done = in_a_process(folder, "model.py:net", "--input=f64[2,3]", "-o", "f.onnx")
    assert done.stderr.startswith("warning: [narrowed-inputs] JAX computes with 32 bits")
    done = export("model.py:net", "--input=f64[2,3]", "-o", "d.onnx", "--x64")
    assert (done.returncode, done.stderr) == (0, "")
    assert onnx.load(folder / "d.onnx").graph.input[0].type.tensor_type.elem_type == 11


def test_options_have_the_names_of_the_python_function(folder, export):
    export("model.py:net", "--input=f32[B,3]", "-o", "a.onnx", "--weights=weight=keep",
           "--compute=float16:all", "--set", "functions=modules", "--set", "model_name=mine",
           "--stacktrace=minimal")  # fmt: skip
    export("model.py:net", "--input=f32[B,3]", "-o", "b.onnx", "--weight-format=weight=keep",
           "--compute-dtype=float16:all", "--onnx-functions=modules", "--name=mine",
           "--training=error", "--provenance=minimal")  # fmt: skip
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


@pytest.mark.filterwarnings("default")
def test_outputs_operators_data_and_a_check(folder, export):
    (folder / "norm.py").write_text("""import jax

def norm(x):
    return jax.nn.softmax(x), jax.numpy.log(x - 9)
""")
    done = export("norm.py:norm", "-i=f32[B,8]", "--outputs=share,log", "--external-data=true",
                  "--operators=Softmax=elementary", "--check", "--output-path=n.onnx")  # fmt: skip
    assert done.returncode == 0
    assert "`log` is NaN on both sides in 16 of 16 elements" in done.stderr
    model = onnx.load(folder / "n.onnx")
    assert [value.name for value in model.graph.output] == ["share", "log"]
    assert "Softmax" not in [node.op_type for node in model.graph.node]


@pytest.mark.filterwarnings("default")
def test_messages_have_the_names_of_the_options(export):
    common = ("model.py:net", "--input=f32[B,3]")
    for option, value, message in (
        ("--compute-dtype", "int8", "`--compute-dtype` cannot be 'int8'"),
        ("--weight-format", "int8", "error: [useless-weights] `--weight-format` changes nothing"),
        ("--target", "tensor-rt", "a similar value exists: 'tensorrt'"),
        ("--outputs", "a,b", "`--outputs` has 2 names, but the model has 1 output"),
    ):
        assert message in export(*common, option, value).stderr


def test_every_option_of_export_has_its_name_here():
    given = {"fn", "inputs", "unknown", "keyword_inputs", "params", "variables", "state"}
    options = {name for name in inspect.signature(jax2onnx.export).parameters if name not in given}
    _, text, _ = _core.command(["export", "--help"])
    shown = set(re.findall(r"--([a-z0-9-]+)", text))
    assert {name.replace("_", "-") for name in options} <= shown


def test_a_file_of_a_package_is_imported_as_its_module(folder, export):
    package = folder / "src" / "pkg" / "nets"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package.parent / "scale.py").write_text("FACTOR = 3.0\n")
    (package / "model.py").write_text(
        "from ..scale import FACTOR\n\n\ndef load():\n    return lambda x: x * FACTOR\n"
    )
    done = export("src/pkg/nets/model.py:load()", "--input=f32[2]", "-o", "m.onnx")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = run(onnx.load(folder / "m.onnx"), [np.ones(2, np.float32)])
    np.testing.assert_array_equal(found, [3, 3])
