"""Matrix products and convolutions."""

from fuzz import arrays
from fuzz.draw import Draw, Reject
from fuzz.program import Kind


def dot_general(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank < 5 and v.dtype.kind != "b")
    roles = [draw.choose(["batch", "contract", "free"]) for _ in range(x.rank)]
    batch = [i for i, role in enumerate(roles) if role == "batch"]
    contract = [i for i, role in enumerate(roles) if role == "contract"]
    draw.rng.shuffle(batch)
    draw.rng.shuffle(contract)
    free = [n for n in draw.sizes(0, 2) if n != draw.size]
    dims = [*((x.shape[i], "b", k) for k, i in enumerate(batch))]
    dims += [(x.shape[i], "c", k) for k, i in enumerate(contract)]
    dims += [(n, "f", k) for k, n in enumerate(free)]
    order = [dims[int(i)] for i in draw.rng.permutation(len(dims))]
    y = draw.fill(tuple(n for n, _, _ in order), x.dtype)

    def places(role: str) -> tuple[int, ...]:
        found = [(k, i) for i, (_, r, k) in enumerate(order) if r == role]
        return tuple(i for _, i in sorted(found))

    left = (tuple(map(int, contract)), tuple(map(int, batch)))
    numbers = ((left[0], places("c")), (left[1], places("b")))
    more = ""
    if arrays.is_integer(x.dtype) and x.dtype.itemsize < 8 and draw.chance(0.3):
        more = ", preferred_element_type=jnp.int32"
    elif x.dtype.name in ("float16", "bfloat16") and draw.chance(0.5):
        more = ", preferred_element_type=jnp.float32"
    text = f"lax.dot_general({x.name}, {y.name}, {numbers}{more})"
    draw.add("dot_general", text, [x, y], Kind.MIXES)


def matmul(draw: Draw) -> None:
    """Adds a dense layer, a target of fusions."""
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind != "b")
    if x.shape[-1] == draw.size:
        raise Reject("weights have known sizes")
    w = draw.fill((x.shape[-1], draw.choose(draw.static)), x.dtype)
    bias = draw.fill((w.shape[-1],), x.dtype)
    text = draw.choose(["{} @ {}", "{} @ {} + {}", "jnp.dot({}, {}) + {}", "({} @ {}) * 0.5 + {}"])
    if "0.5" in text and not arrays.is_inexact(x.dtype):
        raise Reject("floats only")
    operands = [x, w, bias][: text.count("{}")]
    draw.add("matmul", text.format(*(v.name for v in operands)), operands, Kind.MIXES)


def einsum(draw: Draw) -> None:
    x = draw.pick(lambda v: 0 < v.rank < 4 and arrays.is_inexact(v.dtype))
    letters = "ijk"[: x.rank]
    out = "".join(c for c in letters if draw.chance(0.5))
    y = draw.fill(x.shape[::-1], x.dtype)
    text = f"jnp.einsum('{letters},{letters[::-1]}->{out}', {x.name}, {y.name})"
    draw.add("einsum", text, [x, y], Kind.MIXES)


def conv(draw: Draw) -> None:
    """Adds a convolution with one to three spatial axes, in any layout."""
    spatial = draw.choose([1, 1, 2, 2, 3])
    x = None
    if draw.chance(0.5):
        options = [v for v in draw.scope if v.rank == spatial + 2 and arrays.is_inexact(v.dtype)]
        x = draw.choose(options) if options else None
    if x is None:
        dtype = arrays.dtype(draw.choose([d for d in draw.dtypes if d != "bool"]))
        x = draw.fill(tuple(draw.choose([1, 2, 3, 4]) for _ in range(spatial + 2)), dtype)
    if draw.size in x.shape or 0 in x.shape:
        raise Reject("sizes must be known")
    axes = "NC" + "DHW"[3 - spatial :]
    layout = "".join(axes[int(i)] for i in draw.rng.permutation(spatial + 2))
    size = dict(zip(layout, x.shape, strict=True))
    groups = draw.choose([g for g in (1, 1, 1, 2, 3, 4) if size["C"] % g == 0])
    batches = 1
    if groups == 1:
        batches = draw.choose([g for g in (1, 1, 1, 1, 2) if size["N"] % g == 0])
    kernel_axes = "OI" + axes[2:]
    kernel_layout = "".join(kernel_axes[int(i)] for i in draw.rng.permutation(spatial + 2))
    out_layout = "".join(axes[int(i)] for i in draw.rng.permutation(spatial + 2))
    kernel = {"O": groups * batches * draw.choose([1, 2]), "I": size["C"] // groups}
    kernel |= {c: draw.integer(1, 3) for c in axes[2:]}
    w = draw.fill(tuple(kernel[c] for c in kernel_layout), x.dtype)
    strides = tuple(draw.choose([1, 1, 2]) for _ in range(spatial))
    holes = tuple(draw.choose([1, 1, 1, 2]) for _ in range(spatial))
    dilation = tuple(draw.choose([1, 1, 2]) for _ in range(spatial))
    padding = [(draw.integer(0, 2), draw.integer(-1, 2)) for _ in range(spatial)]
    for i, c in enumerate(axes[2:]):
        spread = size[c] + (size[c] - 1) * (holes[i] - 1) + sum(padding[i])
        if (kernel[c] - 1) * dilation[i] + 1 > spread:
            padding[i] = (3, 3)
    padding_text = draw.choose([str(padding), "'SAME'"] if set(holes) == {1} else [str(padding)])
    text = (
        f"lax.conv_general_dilated({x.name}, {w.name}, {strides}, {padding_text}, {holes}, "
        f"{dilation}, ({layout!r}, {kernel_layout!r}, {out_layout!r}), {groups}, {batches})"
    )
    draw.add("conv", text, [x, w], Kind.MIXES)


def fft(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.size > 0 and v.dtype.kind in "fc")
    if x.dtype.name not in ("float32", "complex64", "float64", "complex128"):
        raise Reject("no such transform")
    if draw.size in x.shape:
        raise Reject("sizes must be known")
    names = ["fft", "ifft", "fft2"] if x.dtype.kind == "c" else ["rfft", "fft"]
    name = draw.choose(names)
    if name == "fft2" and x.rank < 2:
        raise Reject("two axes")
    draw.add(name, f"jnp.fft.{name}({x.name})", [x], Kind.MIXES, slack=1e-5)


def triangular_solve(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank == 2 and v.dtype.name in ("float32", "float64"))
    n = x.shape[0]
    if draw.size in x.shape or 0 in x.shape:
        raise Reject("sizes must be known")
    a = draw.fill((n, n), x.dtype)
    lower = draw.chance(0.5)
    text = (
        f"lax.linalg.triangular_solve({a.name} + 9 * jnp.eye({n}, dtype=jnp.{x.dtype.name}), "
        f"{x.name}, left_side=True, lower={lower}, transpose_a={draw.chance(0.5)})"
    )
    draw.add("triangular_solve", text, [a, x], Kind.MIXES, ulps=256, slack=1e-5)


TABLE = [(5, dot_general), (3, matmul), (1, einsum), (4, conv), (0.7, fft), (0.5, triangular_solve)]
