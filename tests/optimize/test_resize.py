"""Resizing of images: `jax.image.resize` as `Resize`, if requested."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import image

from harness.checking import assert_close, check_model, op_types, run
from jax2onnx import to_onnx

NHWC = np.random.default_rng(0).normal(size=(2, 10, 12, 3)).astype(np.float32)
NCHW = np.random.default_rng(1).normal(size=(2, 3, 10, 12)).astype(np.float32)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("size", [(20, 24), (15, 31), (5, 6), (7, 5), (20, 6), (10, 24), (3, 12)])
def test_images_are_resized_by_one_node(size, method, antialias):
    def channels_last(x):
        return image.resize(x, (2, *size, 3), method, antialias=antialias)

    def channels_second(x):
        return image.resize(x, (2, 3, *size), method, antialias=antialias)

    for fn, x in ((channels_last, NHWC), (channels_second, NCHW)):
        ops = op_types(check_model(fn, [x], operators={"Resize": "native"}))
        if method == "cubic" and not antialias and (size[0] < 10 or size[1] < 12):
            assert "Resize" not in ops  # onnxruntime's optimiser breaks it
            continue
        assert ops.count("Resize") == 1, ops
        assert set(ops) <= {"Resize", "Transpose"}


def test_large_images():
    x = np.random.default_rng(2).normal(size=(1, 96, 64, 2)).astype(np.float32)
    model = check_model(
        lambda x: image.resize(x, (1, 192, 128, 2), "bilinear"), [x], operators="native"
    )
    assert op_types(model) == ["Transpose", "Resize", "Transpose"]


def test_symbolic_batches():
    def fn(x):
        return image.resize(x, (x.shape[0], 20, 24, 3), "linear")

    model = to_onnx(fn, [("B", 10, 12, 3)], operators="native")
    assert op_types(model).count("Resize") == 1
    for x in (NHWC, NHWC[:1]):
        assert_close(run(model, [x]), [fn(x)])


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("size", [(20, 24), (17, 21), (7, 5)])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_small_floats(dtype, size, method):
    """Weights are rounded when they are stored."""

    def fn(x):
        return image.resize(x.astype(dtype), (2, *size, 3), method).astype(jnp.float32)

    model = to_onnx(fn, [NHWC], operators="native")
    assert "Resize" in op_types(model)
    np.testing.assert_allclose(run(model, [NHWC])[0], fn(NHWC), atol=0.05)


@pytest.mark.parametrize("method", ["lanczos3", "lanczos5"])
def test_other_methods_stay_products(method):
    model = check_model(
        lambda x: image.resize(x, (2, 20, 24, 3), method), [NHWC], operators="native"
    )
    assert "Resize" not in op_types(model)


@pytest.mark.slow
def test_other_places_stay_products():
    def shifted(x):
        scale, translation = jnp.array([2.0, 2.0]), jnp.array([0.5, 0.25])
        return image.scale_and_translate(x, (2, 20, 24, 3), (1, 2), scale, translation, "linear")

    model = check_model(shifted, [NHWC], operators="native")
    assert "Resize" not in op_types(model)


@pytest.mark.slow
def test_one_axis_may_be_elsewhere():
    def shifted(x):
        scale, translation = jnp.array([2.0, 2.0]), jnp.array([0.5, 0.0])
        return image.scale_and_translate(x, (2, 20, 24, 3), (1, 2), scale, translation, "linear")

    ops = op_types(check_model(shifted, [NHWC], operators="native"))
    assert (ops.count("Resize"), ops.count("MatMul")) == (1, 1)


def test_a_product_by_default():
    """In JAX, one NaN element makes its whole channel NaN."""

    def fn(x):
        return image.resize(x, (2, 20, 24, 3), "linear")

    x = NHWC.copy()
    x[0, 3, 4, 1] = np.nan
    model = to_onnx(fn, [x])
    assert "Resize" not in op_types(model)
    assert_close(run(model, [x]), jax.tree.leaves(fn(x)))


def repeated(x, rows, columns, first=1):
    return jnp.repeat(jnp.repeat(x, rows, axis=first), columns, axis=first + 1)


def nearest(x, rows, columns, first=1):
    shape = list(x.shape)
    shape[first] *= rows
    shape[first + 1] *= columns
    return image.resize(x, shape, "nearest")


@pytest.mark.parametrize("upsample", [repeated, nearest])
@pytest.mark.parametrize("scale", [(2, 2), (3, 5), (2, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.float16])
def test_pixels_are_repeated(upsample, scale, dtype, request):
    wide = request.getfixturevalue("double") if dtype == np.float64 else {}
    x = (NHWC * 9).astype(dtype)
    x[0, 3, 4, 1] = x[0, 9, 11, 2] = np.nan if dtype != np.int32 else 7
    x[1, 0, 0, 0] = np.inf if dtype != np.int32 else -7
    last = check_model(lambda x: upsample(x, *scale), [x], **wide)
    assert op_types(last) == ["Gather", "Gather"]
    channels_second = np.moveaxis(x, -1, 1)
    model = check_model(lambda x: upsample(x, *scale, first=2), [channels_second], **wide)
    has_kernel = dtype != np.float64
    assert op_types(model) == (["Resize"] if has_kernel else ["Gather", "Gather"])
    only = check_model(
        lambda x: upsample(x, *scale, first=2), [channels_second], operators="elementary", **wide
    )
    assert "Resize" not in op_types(only)


@pytest.mark.parametrize("upsample", [repeated, nearest])
def test_pixels_between_convolutions_are_repeated_where_channels_come_second(upsample):
    kernel = jnp.asarray(np.random.default_rng(3).normal(size=(3, 3, 3, 3)), jnp.float32)

    def conv(x):
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    ops = op_types(check_model(lambda x: conv(upsample(conv(x), 2, 2)), [NHWC]))
    assert ops == ["Transpose", "Conv", "Resize", "Conv", "Transpose"]


def test_pixels_of_images_of_any_size_are_repeated():
    model = to_onnx(lambda x: repeated(x, 2, 3), [("b", "h", "w", 3)])
    assert op_types(model) == ["Resize"]
    for x in (NHWC, NHWC[:, :1, :5], NHWC[:0]):
        assert_close(run(model, [x]), [repeated(x, 2, 3)])


@pytest.mark.parametrize("counts", [(2, 2), (3, 1), (4, 7)])
def test_nearest_neighbours_of_any_size(counts):
    """Each pixel is repeated, so that no position is computed."""

    def fn(x):
        batch, height, width, channels = x.shape
        size = (batch, counts[0] * height, counts[1] * width, channels)
        return jax.image.resize(x, size, "nearest")

    model = to_onnx(fn, [("B", "H", "W", 2)])
    assert op_types(model) == ["Resize"]
    for height, width in [(1, 1), (2, 3), (7, 64), (129, 5)]:
        x = np.random.default_rng(0).normal(size=(2, height, width, 2)).astype(np.float32)
        x[0, 0, 0] = np.nan
        np.testing.assert_array_equal(run(model, [x])[0], fn(jnp.asarray(x)))


@pytest.mark.parametrize("length", [lambda n: 2 * n + 1, lambda n: n // 2, lambda n: 8])
def test_nearest_neighbours_at_other_places(length):
    def fn(x):
        return jax.image.resize(x, (length(x.shape[0]), 2), "nearest")

    model = to_onnx(fn, [("T", 2)])
    # Positions are indices of the axis, so they are guarded only against rounding.
    assert "Resize" not in op_types(model)
    assert not {"Clip", "IsNaN", "Max", "Where"} & set(op_types(model))
    for size in (1, 2, 3, 8, 40, 999):
        x = np.random.default_rng(0).normal(size=(size, 2)).astype(np.float32)
        np.testing.assert_array_equal(run(model, [x])[0], fn(jnp.asarray(x)))


@pytest.mark.parametrize(
    "sizes", [(1, 1), (1, 9), (9, 1), (7, 12), (12, 7), (4096, 4097), (3, 9000)]
)
def test_nearest_neighbours_between_any_sizes(sizes):
    def fn(x, like):
        return jax.image.resize(x, like.shape, "nearest")

    model = to_onnx(fn, [("M",), ("N",)])
    assert len(op_types(model)) <= 15
    x, like = np.arange(sizes[0], dtype=np.float32), np.zeros(sizes[1], np.float32)
    np.testing.assert_array_equal(run(model, [x, like])[0], fn(jnp.asarray(x), like))


SIZES = [
    ((1, 1), (1, 1)),
    ((1, 7), (5, 1)),
    ((10, 12), (20, 24)),
    ((31, 17), (8, 40)),
    ((16, 3), (15, 4)),
]


def image_of(size, channels=3):
    return np.random.default_rng(0).normal(size=(2, *size, channels)).astype(np.float32)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_images_of_any_size(method, antialias):
    """The weights are a resized identity, so NaN spreads as in a product."""

    def fn(x, like):
        return image.resize(x, like.shape, method, antialias=antialias)

    model = to_onnx(fn, [("B", "H", "W", 3), ("B", "K", "L", 3)])
    ops = op_types(model)
    is_formula = method == "cubic" and not antialias
    assert ops.count("Resize") == (0 if is_formula else 2)
    assert len(ops) <= (57 if is_formula else 17)
    for old, new in SIZES:
        x, like = image_of(old), np.zeros((2, *new, 3), np.float32)
        for value in (1.0, np.nan, np.inf):
            x[0, old[0] // 2, old[1] // 2, 1] = value
            # Rounding decides whether some weights are zero, which an infinity would reveal.
            if value != np.inf or new == (20, 24):
                assert_close(run(model, [x, like]), [fn(jnp.asarray(x), like)])


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_rows_of_any_size(method, antialias):
    """A few rows are multiplied faster than a matrix is resized."""

    def fn(x, like):
        return image.resize(x, (2, like.shape[0]), method, antialias=antialias)

    model = to_onnx(fn, [(2, "M"), ("N",)])
    assert "Resize" not in op_types(model)
    assert len(op_types(model)) <= (29 if method == "cubic" else 19)
    for old, new in [(1, 1), (1, 9), (9, 1), (7, 12), (12, 7), (33, 34), (5, 100), (300, 7)]:
        x = np.random.default_rng(0).normal(size=(2, old)).astype(np.float32)
        x[1, -1] = np.nan
        like = np.zeros(new, np.float32)
        if old != new:  # JAX does not resize there
            assert_close(run(model, [x, like]), [fn(jnp.asarray(x), like)])


@pytest.mark.parametrize(
    "length", [lambda n: 2 * n, lambda n: n // 2, lambda n: 3 * n + 1, lambda n: (n + 1) // 2]
)
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_sizes_that_follow_from_others(length, method):
    def rows(x):
        return image.resize(x, (2, length(x.shape[1])), method)

    def images(x):
        size = (x.shape[0], length(x.shape[1]), length(x.shape[2]), 2)
        return image.resize(x, size, method)

    flat, full = to_onnx(rows, [(2, "M")]), to_onnx(images, [("B", "H", "W", 2)])
    assert op_types(full).count("Resize") == 2
    for size in (1, 2, 3, 8, 17):
        x = np.random.default_rng(0).normal(size=(2, size)).astype(np.float32)
        y = image_of((size, 3), 2)
        if length(size):
            assert_close(run(flat, [x]), [rows(jnp.asarray(x))])
            assert_close(run(full, [y]), [images(jnp.asarray(y))])
        else:  # where JAX divides by zero
            assert run(flat, [x])[0].shape == (2, 0)
            assert run(full, [y])[0].shape == (2, 0, 1, 2)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_one_size_is_known(method):
    def smaller(x):
        return image.resize(x, (x.shape[0], 9, 11, 2), method)

    def larger(x, like):
        return image.resize(x, (2, *like.shape, 2), method)

    one, other = to_onnx(smaller, [("B", "H", "W", 2)]), to_onnx(larger, [(2, 6, 5, 2), ("K", "L")])
    assert len(op_types(one)) <= 15
    for size in [(1, 1), (4, 40), (9, 12), (30, 25)]:
        x, like = image_of(size, 2), np.zeros(size, np.float32)
        assert_close(run(one, [x]), [smaller(jnp.asarray(x))])
        y = image_of((6, 5), 2)
        assert_close(run(other, [y, like]), [larger(jnp.asarray(y), like)])


@pytest.mark.parametrize("choice", [{"operators": "native"}, {"assume": ["finite"]}])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_images_of_any_size_are_resized_by_one_node(method, choice):
    def fn(x, like):
        return image.resize(x, like.shape, method)

    for shapes in (
        [("B", "H", "W", 3), ("B", "K", "L", 3)],
        [("B", 3, "H", "W"), ("B", 3, "K", "L")],
    ):
        model = to_onnx(fn, shapes, **choice)
        assert set(op_types(model)) <= {"Resize", "Transpose", "Shape", "Concat"}
        assert op_types(model).count("Resize") == 1
        for old, new in SIZES:
            x, like = image_of(old), np.zeros((2, *new, 3), np.float32)
            if shapes[0][1] == 3:
                x, like = x.transpose(0, 3, 1, 2), like.transpose(0, 3, 1, 2)
            assert_close(run(model, [x, like]), [fn(jnp.asarray(x), like)])


def test_axes_that_may_be_empty_are_not_resized_by_one_node():
    def fn(x):
        size = (x.shape[0], x.shape[1] // 2, x.shape[2], 3)
        return image.resize(x, size, "linear")

    model = to_onnx(fn, [("B", "H", "W", 3)], assume=["finite"])
    assert "MatMul" in op_types(model)
    assert run(model, [image_of((1, 4))])[0].shape == (2, 0, 4, 3)


@pytest.mark.parametrize("choice", [{"opset": 17}, {"operators": "elementary"}])
def test_weights_without_resize(choice):
    def fn(x, like):
        return image.resize(x, like.shape, "linear")

    model = to_onnx(fn, [("B", "H", "W", 3), ("B", "K", "L", 3)], **choice)
    assert "Resize" not in op_types(model)
    for old, new in SIZES:
        x, like = image_of(old), np.zeros((2, *new, 3), np.float32)
        assert_close(run(model, [x, like]), [fn(jnp.asarray(x), like)])


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_small_floats_of_any_size(dtype):
    def fn(x, like):
        return image.resize(x.astype(dtype), like.shape, "linear").astype(jnp.float32)

    model = to_onnx(fn, [("B", "H", "W", 3), ("B", "K", "L", 3)])
    assert len(op_types(model)) <= 40
    for old, new in SIZES:
        x, like = image_of(old), np.zeros((2, *new, 3), np.float32)
        np.testing.assert_allclose(run(model, [x, like])[0], fn(x, like), atol=0.05)


def test_shifted_places_of_any_size():
    """New elements may be outside the image, where they are zero."""

    def fn(x, like):
        scale, translation = jnp.array([2.0]), jnp.array([1.5])
        return image.scale_and_translate(x, like.shape, (1,), scale, translation, "linear")

    model = to_onnx(fn, [("B", "H"), ("B", "K")])
    for old, new in [(3, 9), (5, 2)]:
        x, like = np.ones((2, old), np.float32), np.zeros((2, new), np.float32)
        assert_close(run(model, [x, like]), [fn(jnp.asarray(x), like)])
