"""Names by pattern, and other element types, at a model's boundary."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import jax2onnx
from jax2onnx import to_onnx

EMBEDDING = jnp.asarray(np.random.default_rng(0).standard_normal((11, 4)), jnp.float32)


def decode(input_ids, attention_mask, cache):
    x = EMBEDDING[input_ids]
    cache = [{"k": jnp.concatenate([c["k"], x], 1), "v": c["v"] + 1} for c in cache]
    total = sum((c["k"] * attention_mask[..., None]).sum(1) for c in cache)
    return {"logits": total, "cache": cache}


def specs():
    (batch, sequence, past, total) = jax.export.symbolic_shape(
        "batch, sequence, past, total", constraints=["total == past + sequence"]
    )
    layer = {"k": (batch, past, 4), "v": (batch, past, 4)}
    int32 = jnp.int32
    return [
        jax.ShapeDtypeStruct((batch, sequence), int32),
        jax.ShapeDtypeStruct((batch, total), int32),
        [layer, layer],
    ]


OPTIONS = {
    "input_names": {
        "cache.{i}.k": "past_key_values.{i}.key",
        "cache.{i}.v": "past_key_values.{i}.value",
    },
    "output_names": {
        "out.logits": "logits",
        "out.cache.{i}.k": "present.{i}.key",
        "out.cache.{i}.v": "present.{i}.value",
    },
    "input_dtypes": {
        "input_ids": "int64",
        "attention_mask": jnp.int64,
        "past_key_values.*": np.float16,
    },
    "output_dtypes": {"present.{i}.key": jnp.float16, "present.*.value": "float16"},
}


def arguments(batch=2, sequence=3, past=5):
    rng = np.random.default_rng(1)

    def half():
        return rng.standard_normal((batch, past, 4)).astype(np.float16)

    ids = rng.integers(0, 11, (batch, sequence))
    mask = rng.integers(0, 2, (batch, past + sequence))
    return ids, mask, [{"k": half(), "v": half()} for _ in range(2)]


def test_a_decoder_as_runtimes_want_it():
    model = to_onnx(decode, specs(), **OPTIONS)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert {i.name: i.type for i in session.get_inputs()} == {
        "input_ids": "tensor(int64)",
        "attention_mask": "tensor(int64)",
        **{
            f"past_key_values.{i}.{what}": "tensor(float16)"
            for i in range(2)
            for what in ("key", "value")
        },
    }
    assert {o.name: o.type for o in session.get_outputs()} == {
        "logits": "tensor(float)",
        **{f"present.{i}.{what}": "tensor(float16)" for i in range(2) for what in ("key", "value")},
    }
    ids, mask, cache = arguments()
    feeds = {"input_ids": ids, "attention_mask": mask}
    for i, layer in enumerate(cache):
        feeds |= {f"past_key_values.{i}.key": layer["k"], f"past_key_values.{i}.value": layer["v"]}
    names = [o.name for o in session.get_outputs()]
    found = dict(zip(names, session.run(None, feeds), strict=True))
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), cache)
    wanted = decode(jnp.asarray(ids, jnp.int32), jnp.asarray(mask, jnp.int32), single)
    np.testing.assert_allclose(found["logits"], wanted["logits"], rtol=1e-6)
    for i in range(2):
        half = np.asarray(wanted["cache"][i]["k"]).astype(np.float16)
        np.testing.assert_array_equal(found[f"present.{i}.key"], half)


def test_the_sizes_are_related():
    model = to_onnx(decode, specs(), **OPTIONS)
    shapes = {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in [*model.graph.input, *model.graph.output]
    }
    assert shapes["past_key_values.0.key"] == ["batch", "past", 4]
    assert shapes["present.0.key"] in (
        ["batch", "past + sequence", 4],
        ["batch", "sequence + past", 4],
        ["batch", "total", 4],
    )


def test_comparisons_know_the_types_of_the_function():
    model = to_onnx(decode, specs(), **OPTIONS)
    ids, mask, cache = arguments()
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), cache)
    given = [jnp.asarray(ids, jnp.int32), jnp.asarray(mask, jnp.int32), single]
    same, message = jax2onnx.allclose(decode, model, given)
    assert same, message
    found = jax2onnx.verify(decode, model, given)
    assert found, str(found)


def test_a_recording_has_the_types(tmp_path):
    path = tmp_path / "decode.jaxpr"
    model = to_onnx(decode, specs(), **OPTIONS, record=path, record_weights=True)
    from jax2onnx import _core

    assert _core.main(["convert", str(path), "-o", str(tmp_path / "again.onnx")]) == 0
    again = onnx.load(tmp_path / "again.onnx")
    assert list(again.graph.input) == list(model.graph.input)
    assert list(again.graph.output) == list(model.graph.output)


def test_a_mask_of_booleans_and_a_layout():
    def masked(image, mask):
        return jnp.where(mask, image, 0)

    model = to_onnx(
        masked,
        [jax.ShapeDtypeStruct((1, 2, 3, 4), jnp.float32), jax.ShapeDtypeStruct((), bool)],
        inputs_as_nchw=["image"],
        input_dtypes={"image": "float16", "mask": "int64"},
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    image = np.arange(24, dtype=np.float16).reshape(1, 4, 2, 3)
    for mask in (0, 5):
        (found,) = session.run(None, {"image": image, "mask": np.asarray(mask)})
        wanted = image.transpose(0, 2, 3, 1).astype(np.float32) * (mask != 0)
        np.testing.assert_array_equal(found, wanted)


def test_a_flag_of_another_type_keeps_its_default():
    def scaled(x, *, double):
        return x * 2 if double else x

    model = to_onnx(scaled, [(3,)], {"double": True}, input_dtypes={"double": "int64"})
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = np.ones(3, np.float32)
    assert session.run(None, {"x": x})[0].tolist() == [2, 2, 2]
    assert session.run(None, {"x": x, "double": np.asarray(0)})[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": {"cash.{i}.k": "x.{i}"}}, "`cash.{i}.k`, which matches nothing"),
        ({"input_names": {"cache.{i}.k": "past.{layer}"}}, "`{layer}` has no value"),
        ({"input_names": {"cache.*.k": "past.*"}}, "`*` has no value"),
        ({"input_names": {"cache.{i}.k": 3}}, "maps 'cache.{i}.k' to 3"),
        (
            {"input_names": {"cache.{i}.k": "past"}},
            "repeats `past`, for `cache.0.k` and `cache.1.k`",
        ),
        ({"output_names": {"logits": "x"}}, "the names are: out.cache.0.k"),
        ({"output_names": {"out.logits": "input_ids"}}, "repeats `input_ids`"),
        ({"input_dtypes": {"ids": "int64"}}, "`ids`, which matches nothing"),
        ({"input_dtypes": {"input_ids": "int63"}}, "maps `input_ids` to 'int63'"),
        ({"input_dtypes": {"input_ids": "float32"}}, "`input_ids` float32, but the function has"),
        ({"output_dtypes": {"out.logits": "complex64"}}, "maps `out.logits` to 'complex64'"),
        ({"output_dtypes": ["float16"]}, "`output_dtypes` cannot be ['float16']"),
    ],
)
def test_invalid_names_and_types_are_errors(options, message):
    with pytest.raises(jax2onnx.InvalidInputError) as error:
        to_onnx(decode, specs(), **options)
    assert message in str(error.value)
