"""Nothing of JAX or of the frameworks is replaced, neither by the import nor by exports."""

import subprocess
import sys
from pathlib import Path

SCRIPT = '''
import sys
import types
import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

PACKAGES = {"jax", "flax", "equinox", "haiku", "numpy"}


def attributes():
    """Returns every attribute of all modules and classes, and every rule of a primitive."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in PACKAGES or module is None:
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and value.__module__.split(".")[0] in PACKAGES:
                for member, function in list(vars(value).items()):
                    found[value, member] = function
            if type(value) is dict:
                for primitive, rule in list(value.items()):
                    if isinstance(primitive, jax.extend.core.Primitive):
                        found[name, key, primitive] = rule
    return found


def check(step):
    now = attributes()
    gone = [key for key in before if key not in now]
    replaced = [key for key, value in before.items() if key in now and now[key] is not value]
    added = [key for key, value in now.items() if key not in before and is_ours(value)]
    print(step, *map(str, gone + replaced + added))


def is_ours(value):
    return (getattr(value, "__module__", None) or "").split(".")[0] == "jax2onnx"


class Layers(nnx.Module):
    def __init__(self):
        self.linear = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
        self.norm = nnx.LayerNorm(3, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return jax.nn.gelu(self.norm(self.linear(x)))


def forward(x):
    return hk.Linear(3)(jax.nn.softmax(x))


x = np.ones((2, 3), np.float32)
dense = linen.Dense(3)
variables = dense.init(jax.random.key(0), x)
block = hk.without_apply_rng(hk.transform(forward))
weights = block.init(jax.random.PRNGKey(0), x)
linear = eqx.nn.Linear(3, 3, key=jax.random.key(0))
programs = {
    "nnx": Layers(),
    "linen": lambda x: dense.apply(variables, x),
    "haiku": lambda x: block.apply(weights, x),
    "equinox": jax.vmap(linear),
    "jax": lambda x: jnp.linalg.svd(x + jax.random.normal(jax.random.key(0), x.shape)),
}
for program in programs.values():
    program(x)
    jax.make_jaxpr(program)(x)
import jax.export
import onnx

before = attributes()
import jax2onnx

check("import")
for name, program in programs.items():
    jax2onnx.to_onnx(program, [("B", 3)] if name != "jax" else [x])
    check(name)
jax2onnx.to_onnx(Layers(), [x], functions="modules")
check("functions")


class Fails(Layers):
    def __call__(self, x):
        return bool(super().__call__(x)[0, 0])


for fails in (Fails(), lambda x: jax.pure_callback(np.sin, x, x), 3):
    try:
        jax2onnx.to_onnx(fails, [x], functions="modules")
    except Exception:
        check("failure")
jnp.sin = jnp.cos
check("patched")
'''


def test_nothing_is_replaced(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    steps = ["import", "nnx", "linen", "haiku", "equinox", "jax", "functions", *["failure"] * 3]
    assert result.stdout.splitlines() == [*steps, "patched ('jax.numpy', 'sin')"]
