"""Parameters without values, which are read from a checkpoint while the model is written."""

import functools
import json
import os
import subprocess
import sys
import textwrap

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import orbax.checkpoint
import pytest
from flax import nnx

from harness.checking import assert_close, run
from harness.checkpoints import flat, write
from jax2onnx import Checkpoint, Stored, allclose, to_onnx, to_onnx_set, verify
from jax2onnx.errors import InvalidInputError


def make(key):
    k1, k2 = jax.random.split(key)
    layers = [{"w": jax.random.normal(k, (16, 16)), "b": jnp.ones(16)} for k in (k1, k2)]
    return {"layers": layers, "head": jax.random.normal(key, (16, 4))}


def apply(params, x):
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params["head"]


KEY = jax.random.key(0)
PARAMS = make(KEY)
ABSTRACT = jax.eval_shape(make, KEY)
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 16)


def names(model):
    return {t.name for t in model.graph.initializer}


def test_a_pytree_is_read_from_a_file(tmp_path):
    path = write(tmp_path / "m.safetensors", flat(PARAMS))
    concrete = to_onnx(functools.partial(apply, PARAMS), [X])
    for fn in (functools.partial(apply, ABSTRACT), lambda x: apply(ABSTRACT, x)):
        model = to_onnx(fn, [X], checkpoint=path)
        assert names(model) >= {"layers.0.w", "layers.1.b", "head"}
        assert model.graph == concrete.graph or names(model) == names(concrete)
        assert_close(run(model, [X]), [apply(PARAMS, X)])
    # The user's tree is unchanged.
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(ABSTRACT))


def test_a_file_is_written(tmp_path):
    path = write(tmp_path / "m.safetensors", flat(PARAMS))
    out = str(tmp_path / "m.onnx")
    fn = functools.partial(apply, ABSTRACT)
    for weights in (None, {"*.w": "int4"}, {"*.w": "float16"}):
        options = {"return_mode": "file", "output_path": out, "weights": weights}
        to_onnx(fn, [X], checkpoint=path, **options)
        expected = to_onnx(functools.partial(apply, PARAMS), [X], weights=weights)
        assert_close(run(out, [X]), run(expected, [X]))


def test_several_files(tmp_path):
    tensors = flat(PARAMS)
    items = list(tensors.items())
    write(tmp_path / "a.safetensors", dict(items[:2]))
    write(tmp_path / "b.safetensors", dict(items[2:]))
    fn = functools.partial(apply, ABSTRACT)
    assert_close(run(to_onnx(fn, [X], checkpoint=tmp_path), [X]), [apply(PARAMS, X)])
    where = {name: "ab"[i >= 2] + ".safetensors" for i, (name, _) in enumerate(items)}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    for path in (tmp_path, index):
        assert_close(run(to_onnx(fn, [X], checkpoint=path), [X]), [apply(PARAMS, X)])


class Mlp(nnx.Module):
    def __init__(self, rngs):
        self.up, self.down = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 4, rngs=rngs)
        self.norm = nnx.LayerNorm(32, rngs=rngs)

    def __call__(self, x):
        return self.down(self.norm(nnx.relu(self.up(x))))


def test_nnx(tmp_path):
    model = Mlp(nnx.Rngs(0))
    abstract = nnx.eval_shape(lambda: Mlp(nnx.Rngs(0)))
    state = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    path = write(tmp_path / "m.safetensors", flat(state))
    exported = to_onnx(abstract, [X], checkpoint=path)
    assert "up.kernel" in names(exported)
    assert_close(run(exported, [X]), [model(X)])


def test_equinox(tmp_path):
    make = functools.partial(eqx.nn.MLP, 16, 4, 32, 2)
    model = make(key=KEY)
    abstract = eqx.filter_eval_shape(make, key=KEY)
    tensors = {name: leaf for name, leaf in flat(model).items() if eqx.is_array(leaf)}
    path = write(tmp_path / "m.safetensors", tensors)
    exported = to_onnx(jax.vmap(abstract), [X], checkpoint=path)
    assert_close(run(exported, [X]), [jax.vmap(model)(X)])


def test_linen(tmp_path):
    model = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(4)])
    variables = model.init(KEY, X)
    abstract = jax.eval_shape(model.init, KEY, X)
    path = write(tmp_path / "m.safetensors", flat(variables["params"]))
    exported = to_onnx(functools.partial(model.apply, abstract), [X], checkpoint=path)
    assert_close(run(exported, [X]), [model.apply(variables, X)])


def test_orbax(tmp_path):
    folder = tmp_path / "step"
    orbax.checkpoint.PyTreeCheckpointer().save(folder, PARAMS)
    exported = to_onnx(functools.partial(apply, ABSTRACT), [X], checkpoint=folder)
    assert_close(run(exported, [X]), [apply(PARAMS, X)])


def renamed(params):
    """Returns the tensors in PyTorch's layout."""
    tensors = {"model.head.weight": np.ascontiguousarray(np.asarray(params["head"]).T)}
    for i, layer in enumerate(params["layers"]):
        tensors[f"model.layers.{i}.weight"] = np.ascontiguousarray(np.asarray(layer["w"]).T)
        tensors[f"model.layers.{i}.bias"] = np.asarray(layer["b"])
    return tensors


@pytest.mark.parametrize("weights", [None, {"*.w": "int8:16"}])
def test_names_and_layouts_differ(tmp_path, weights):
    path = write(tmp_path / "m.safetensors", renamed(PARAMS))
    mapping = {
        "layers.{i}.w": Stored("model.layers.{i}.weight", transpose=True),
        "layers.{i}.b": "model.layers.{i}.bias",
        "head": Stored("model.head.weight", transpose=(1, 0)),
    }

    def function(name):
        if name == "head":
            return mapping["head"]
        _, i, kind = name.split(".")
        if kind == "b":
            return f"model.layers.{i}.bias"
        return Stored(f"model.layers.{i}.weight", transpose=True)

    fn = functools.partial(apply, ABSTRACT)
    expected = run(to_onnx(functools.partial(apply, PARAMS), [X], weights=weights), [X])
    for given in (mapping, function):
        exported = to_onnx(fn, [X], checkpoint=Checkpoint(path, names=given), weights=weights)
        assert_close(run(exported, [X]), expected)


def test_another_float_type_is_a_choice(tmp_path):
    small = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), PARAMS)
    path = write(tmp_path / "m.safetensors", flat(small))
    fn = functools.partial(apply, ABSTRACT)
    with pytest.raises(
        InvalidInputError, match=r"`head` is float32\[16, 4\] in the function, but `head` is bfloat"
    ):
        to_onnx(fn, [X], checkpoint=path)
    widened = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), small)
    exported = to_onnx(fn, [X], checkpoint=Checkpoint(path, cast=True))
    assert_close(run(exported, [X]), [apply(widened, X)])


@pytest.mark.parametrize("weights", [None, "int4"])
@pytest.mark.parametrize("is_tied", [False, True])
def test_tables_keep_the_type_of_the_checkpoint(tmp_path, weights, is_tied):
    """Rows that are looked up are cast after that; a table that a product reads is not kept."""
    rng = np.random.default_rng(0)
    tables = {"table": (600, 32), "head": (32, 600)}
    small = {k: jnp.asarray(rng.standard_normal(v), jnp.bfloat16) for k, v in tables.items()}
    path = write(tmp_path / "m.safetensors", small)

    def tied(params, ids):
        head = params["table"].T if is_tied else params["head"]
        return params["table"][ids], params["table"][ids] @ head

    abstract = {k: jax.ShapeDtypeStruct(v, jnp.float32) for k, v in tables.items()}
    ids = np.asarray([3, 599, 0], np.int32)
    fn = functools.partial(tied, abstract)
    exported = to_onnx(fn, [ids], checkpoint=Checkpoint(path, cast=True), weights=weights)
    types = {t.name: t.data_type for t in exported.graph.initializer}
    kept = {None: onnx.TensorProto.FLOAT, "int4": onnx.TensorProto.UINT8}[weights]
    assert types["table"] == (kept if is_tied else onnx.TensorProto.BFLOAT16)
    rows = run(exported, [ids])[0]
    if weights is None or not is_tied:
        np.testing.assert_array_equal(rows, np.asarray(small["table"][ids], np.float32))


def test_types_that_come_back_are_copied(tmp_path):
    small = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), PARAMS)
    path = write(tmp_path / "m.safetensors", flat(small))
    exported = to_onnx(
        functools.partial(apply, ABSTRACT),
        [X],
        checkpoint=Checkpoint(path, cast=True),
        weights={"*.w": "bfloat16", "head": "bfloat16"},
    )
    held = {t.name: t.raw_data for t in exported.graph.initializer}
    assert held["head"] == np.asarray(small["head"]).tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("layers.1.w"), "lacks one of 5 parameters"),
        (lambda t: t.update({"model.head": t.pop("head")}), "`head`; did you mean `model.head`?"),
        (lambda t: t.update(head=t["head"].T), r"but `head` is float32\[4, 16\] in the checkpoint"),
        (lambda t: t.update(head=t["head"].astype("int32")), r"but `head` is int32\[16, 4\]"),
    ],
)
def test_a_checkpoint_that_does_not_fit(tmp_path, change, message):
    tensors = {name: np.asarray(leaf) for name, leaf in flat(PARAMS).items()}
    change(tensors)
    path = write(tmp_path / "m.safetensors", tensors)
    out = tmp_path / "m.onnx"
    out.write_text("old")
    with pytest.raises(InvalidInputError, match=message) as raised:
        to_onnx(
            functools.partial(apply, ABSTRACT),
            [X],
            checkpoint=path,
            return_mode="file",
            output_path=out,
        )
    assert raised.value.code == "invalid-checkpoint"
    assert out.read_text() == "old"


def test_unreadable_checkpoints(tmp_path):
    fn = functools.partial(apply, ABSTRACT)
    with pytest.raises(InvalidInputError, match="there is no checkpoint"):
        to_onnx(fn, [X], checkpoint=tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"not a checkpoint at all")
    with pytest.raises(InvalidInputError, match="not a safetensors file"):
        to_onnx(fn, [X], checkpoint=tmp_path / "bad.safetensors")
    with pytest.raises(InvalidInputError, match="`checkpoint` cannot be 3"):
        to_onnx(fn, [X], checkpoint=3)


def test_a_struct_in_two_places_is_an_error(tmp_path):
    struct = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    path = write(tmp_path / "m.safetensors", {"0": np.zeros((16, 16), np.float32)})
    both = [struct, struct]
    with pytest.raises(InvalidInputError, match="several parameters share the ShapeDtypeStruct"):
        to_onnx(lambda x: x @ both[0] @ both[1], [X], checkpoint=path)
    layers = [{"w": struct}] * 2
    with pytest.raises(InvalidInputError, match="several parameters share the ShapeDtypeStruct"):
        to_onnx(lambda x: x @ layers[0]["w"] @ layers[1]["w"], [X], checkpoint=path)


@pytest.mark.parametrize("weights", [None, "int4"])
def test_a_widened_tensor_is_transposed_on_its_way(weights, tmp_path):
    """A matrix of PyTorch in bfloat16, which the function transposes: `x @ w.T`."""
    stored = np.random.default_rng(0).standard_normal((96, 64)).astype(jnp.bfloat16)
    path = write(tmp_path / "m.safetensors", {"w": stored})
    params = {"w": jax.ShapeDtypeStruct((96, 64), jnp.float32)}
    model = to_onnx(
        lambda x: x @ params["w"].T,
        [("batch", 64)],
        checkpoint=Checkpoint(path, cast=True),
        weights=weights,
    )
    assert "Transpose" not in [node.op_type for node in model.graph.node]
    held = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert held["w"] == [64, 96]


SHARDED = """
    import os, sys
    import jax, numpy as np, onnxruntime
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from jax2onnx import to_onnx
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
    w = np.arange(512 * 256, dtype=np.float32).reshape(512, 256) / 1e5
    x = np.ones((1, 512), np.float32)
    for spec in (P("a", "b"), P(None, "b"), P("b"), P()):
        array = jax.device_put(w, NamedSharding(mesh, spec))
        path = os.path.join(sys.argv[1], "m.onnx")
        for weights in (None, "int8"):
            to_onnx(lambda x: x @ array, [x], weights=weights, return_mode="file", output_path=path)
            assert array._npy_value is None, spec
            session = onnxruntime.InferenceSession(path)
            found = session.run(None, {"x": x})[0]
            np.testing.assert_allclose(found, x @ w, rtol=1e-5 if weights is None else 2e-2)
    print("fine")
"""


@pytest.mark.slow
def test_sharded_weights_leave_no_copy_behind(tmp_path):
    env = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED), str(tmp_path)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_recording_leaves_out_the_values(tmp_path):
    path = write(tmp_path / "m.safetensors", flat(PARAMS))
    record = tmp_path / "m.jaxpr"
    model = to_onnx(functools.partial(apply, ABSTRACT), [X], checkpoint=path, record=record)
    assert isinstance(model, onnx.ModelProto)
    assert "..." in record.read_text()


@pytest.mark.parametrize("kind", ["safetensors", "orbax"])
def test_a_set_reads_each_tensor_once(tmp_path, kind):
    tensors = {name: np.ones((64, 64), np.float32) * i for i, name in enumerate("abc", 1)}
    path = tmp_path / "checkpoint"
    if kind == "orbax":
        orbax.checkpoint.PyTreeCheckpointer().save(path, tensors)
    else:
        path.mkdir()
        write(path / "m.safetensors", tensors)

    # Separate structs, so that only the checkpoint shows that the parameters are the same.
    def function(names):
        params = jax.eval_shape(lambda: tensors)
        return lambda x: sum(x @ params[name] for name in names)

    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    functions = {"first": (function("ab"), [x]), "second": (function("bc"), [x])}
    for weights, size in (
        (None, 3 * 16384),
        ("float16", 3 * 8192),
        ({"b": "int8", "*": "int4"}, 10240),
    ):
        paths = to_onnx_set(functions, tmp_path / "set", checkpoint=path, weights=weights)
        placed = {}
        for name, model in paths.items():
            graph = onnx.load(model, load_external_data=False).graph
            for tensor in graph.initializer:
                if tensor.external_data:
                    placed.setdefault(tensor.name, set()).add(tensor.external_data[1].value)
            used = "ab" if name == "first" else "bc"
            expected = sum(x @ tensors[name] for name in used)
            np.testing.assert_allclose(run(model, [x])[0], expected, rtol=0.01)
        assert placed.keys() == {"a", "b", "c"}
        assert all(len(offsets) == 1 for offsets in placed.values())
        assert os.path.getsize(tmp_path / "set" / "weights.data") == size


class Dropping(nnx.Module):
    def __init__(self, rngs):
        self.up, self.dropout = nnx.Linear(16, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x, *, deterministic):
        return self.dropout(self.up(x), deterministic=deterministic)


def test_random_keys_have_no_values(tmp_path):
    model = Dropping(nnx.Rngs(0))
    abstract = nnx.eval_shape(lambda: Dropping(nnx.Rngs(0)))
    state = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    path = write(tmp_path / "m.safetensors", flat(state))
    exported = to_onnx(functools.partial(abstract, deterministic=True), [X], checkpoint=path)
    assert_close(run(exported, [X]), [model(X, deterministic=True)])
    with pytest.raises(InvalidInputError, match=r"random key `dropout\.rngs.*` *, which has no"):
        to_onnx(functools.partial(abstract, deterministic=False), [X], checkpoint=path)


def test_without_a_checkpoint_there_are_no_values():
    def use(call):
        with pytest.raises(TypeError, match="ShapeDtypeStruct") as caught:
            call()
        assert "has no values" in "".join(caught.value.__notes__)

    fn = functools.partial(apply, ABSTRACT)
    exported = to_onnx(functools.partial(apply, PARAMS), [X])
    use(lambda: to_onnx(fn, [X]))
    use(lambda: allclose(fn, exported, [X]))
    use(lambda: verify(fn, exported, [X]))
    weight = jax.ShapeDtypeStruct((16, 4), np.float32)
    with pytest.raises(InvalidInputError, match="the parameter `weight` has no values"):
        to_onnx(lambda x: jnp.dot(x, weight), [X])


BARE = jax.ShapeDtypeStruct((16, 16), np.float32)


def test_wherever_a_function_holds_a_parameter(tmp_path):
    w = np.asarray(PARAMS["layers"][0]["w"])
    checkpoint = Checkpoint(write(tmp_path / "m.safetensors", {"w": w}), names=lambda _: "w")
    struct, parts = jax.ShapeDtypeStruct(w.shape, w.dtype), {"w": BARE}
    bound = functools.partial(lambda w, x: x @ w, struct)

    @jax.jit
    def jitted(x):
        return x @ parts["w"]

    pair = (struct, 1)
    for fn in (bound, lambda x: bound(x), lambda x: x @ BARE, lambda x: x @ pair[0], jitted):
        # Twice, because JAX caches traces.
        for _ in range(2):
            assert_close(run(to_onnx(fn, [X], checkpoint=checkpoint), [X]), [X @ w])
    assert isinstance(BARE, jax.ShapeDtypeStruct)
    assert bound.args == (struct,)
