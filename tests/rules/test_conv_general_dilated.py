import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes, op_types

NHWC = ("NHWC", "HWIO", "NHWC")


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def convolve(strides=(1, 1), padding="SAME", numbers=NHWC, **options):
    def fn(x, w):
        return lax.conv_general_dilated(
            x, w, strides, padding, dimension_numbers=numbers, **options
        )

    return fn


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": (2, 1)},
        {"padding": "VALID"},
        {"padding": [(0, 2), (1, 0)]},
        {"padding": [(-1, 2), (1, -2)]},
        {"padding": [(-7, 9), (9, -7)]},
        {"rhs_dilation": (2, 1)},
        {"lhs_dilation": (2, 3), "padding": [(2, 1), (0, 4)]},
        {"lhs_dilation": (2, 1), "padding": [(5, 0), (0, 5)]},
        {"lhs_dilation": (3, 2), "padding": [(-1, 4), (4, -1)]},
        {"lhs_dilation": (2, 2), "rhs_dilation": (1, 2), "padding": [(1, 1), (2, 3)]},
        {"lhs_dilation": (2, 1), "strides": (3, 2), "padding": [(1, 2), (0, 1)]},
    ],
    ids=str,
)
def test_window(options):
    check_model(convolve(**options), [normal(2, 6, 5, 3), normal(3, 2, 3, 4)])


@pytest.mark.parametrize(
    ("x", "w", "numbers"),
    [
        ((2, 3, 7), (4, 3, 3), ("NCH", "OIH", "NCH")),
        ((7, 2, 3), (3, 4, 3), ("HNC", "HOI", "CHN")),
        ((2, 3, 4, 5, 6), (4, 3, 2, 3, 2), ("NCDHW", "OIDHW", "NCDHW")),
        ((2, 4, 5, 6, 3), (2, 3, 2, 3, 4), ("NDHWC", "DHWIO", "NDHWC")),
        ((2, 3), (4, 3), ("NC", "OI", "NC")),
        ((3, 2), (3, 4), ("CN", "IO", "CN")),
    ],
)
def test_layouts(x, w, numbers):
    rank = len(x) - 2
    fn = convolve((2,) * rank, [(1, 0)] * rank, numbers)
    model = check_model(fn, [normal(*x), normal(*w)])
    if numbers[0].startswith("NC") and rank:
        assert op_types(model) == ["Conv"]


@pytest.mark.parametrize("groups", [{"feature_group_count": 2}, {"batch_group_count": 2}])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 2)])
def test_groups(groups, dilation):
    channels = 4 // groups.get("feature_group_count", 1)
    fn = convolve(padding=[(1, 1), (1, 2)], lhs_dilation=dilation, **groups)
    check_model(fn, [normal(2, 5, 5, 4), normal(3, 3, channels, 6)])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (2, 3), (4, 2), (3, 1)])
def test_transposed(size, stride, padding):
    def fn(x, w):
        return lax.conv_transpose(x, w, (stride, stride), padding)

    model = check_model(fn, [normal(2, 5, 4, 3), normal(size, size, 3, 4)])
    assert ("ConvTranspose" in op_types(model)) == (stride > 1)
    assert "Pad" not in op_types(model)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int32, np.uint8])
def test_element_types(dtype):
    values = np.random.default_rng(0).integers(0, 5, (1, 5, 5, 2)).astype(dtype)
    kernel = np.random.default_rng(1).integers(0, 5, (3, 3, 2, 3)).astype(dtype)
    check_model(convolve(), [values, kernel])
    check_model(convolve(lhs_dilation=(2, 2), padding=[(1, 1), (1, 1)]), [values, kernel])


def test_double_precision():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        args = [normal(1, 5, 5, 2, dtype=np.float64), normal(3, 3, 2, 4, dtype=np.float64)]
        check_model(convolve(), args, enable_double_precision=True)
        transposed = convolve(lhs_dilation=(2, 3), padding=[(1, 2), (0, 3)])
        check_model(transposed, args, enable_double_precision=True)


def test_preferred_element_type():
    fn = convolve(preferred_element_type=jnp.int32)
    check_model(fn, [np.full((1, 4, 4, 2), 100, np.int8), np.full((3, 3, 2, 3), 100, np.int8)])


@pytest.mark.parametrize(
    ("x", "w"),
    [((0, 5, 5, 2), (3, 3, 2, 3)), ((1, 5, 5, 0), (3, 3, 0, 3)), ((1, 2, 2, 2), (3, 3, 2, 3))],
)
def test_empty(x, w):
    check_model(convolve(padding="VALID"), [normal(*x), normal(*w)])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_symbolic_sizes(stride, padding):
    kernel = jnp.asarray(normal(3, 3, 3, 4))
    batch, height, width = export.symbolic_shape("batch, height, width")
    specs = [jax.ShapeDtypeStruct((batch, height, width, 3), np.float32)]
    runs = [[normal(2, 8, 7, 3)], [normal(3, 9, 5, 3)]]
    check_sizes(lambda x: convolve((stride, stride), padding)(x, kernel), specs, *runs)
    check_sizes(lambda x: lax.conv_transpose(x, kernel, (stride, stride), padding), specs, *runs)


PER_EXAMPLE = {
    "a kernel each": jax.vmap(lambda x, w: convolve()(x[None], w)[0]),
    "groups of a kernel each": jax.vmap(
        lambda x, w: convolve(feature_group_count=2)(x[None], w[:, :, :1])[0]
    ),
    "a transposed kernel each": jax.vmap(
        lambda x, w: convolve(lhs_dilation=(2, 2), padding=[(1, 1), (1, 1)])(x[None], w)[0]
    ),
    "a gradient each": jax.vmap(
        jax.grad(lambda x, w: (convolve((2, 2))(x[None], w) ** 2).sum(), argnums=1)
    ),
    "integers": jax.vmap(
        lambda x, w: convolve()((9 * x[None]).astype(np.int32), (9 * w).astype(np.int32))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PER_EXAMPLE)
def test_a_symbolic_number_of_groups(name):
    specs = [("B", 4, 5, 2), ("B", 3, 3, 2, 4)]
    runs = [[normal(n, 4, 5, 2), normal(n, 3, 3, 2, 4)] for n in (1, 3)]
    check_sizes(PER_EXAMPLE[name], specs, *runs)
