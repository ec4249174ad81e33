"""Programs that the tested version of JAX does not produce, or expands before recording: by file, a
similar program and the replacements in it.
"""

_CALLS = ("closed_call", "core_call", "call_hi_primitive", "eval_jaxpr", "scaled_matmul_wrapper")


def _call(name: str) -> dict[str, str]:
    return {" jit[": f" {name}[", " jaxpr=": " call_jaxpr=", "[jaxpr=": "[call_jaxpr="}


PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    **{f"calls/{name}": ("calls/jit", _call(name)) for name in _CALLS},
    "calls/pjit": ("calls/jit", {" jit[": " pjit["}),
    "calls/checkpoint": ("calls/remat2", {" remat2[": " checkpoint["}),
    "calls/remat": ("calls/remat2", {" remat2[": " remat["}),
    "calls/custom_vjp_call_jaxpr": (
        "calls/custom_vjp_call",
        {" custom_vjp_call[": " custom_vjp_call_jaxpr[", "call_jaxpr=": "fun_jaxpr="},
    ),
    "elementwise/log2": ("elementwise/log", {" log[": " log2["}),
    "elementwise/one_minus_square": ("elementwise/square", {" square ": " one_minus_square "}),
    "special_functions/polynomial": ("elementwise/clamp.arrays", {" clamp ": " polynomial "}),
    **{
        f"complex/{name}.complex": ("complex/remat2.complex", {" remat2[": f" {name}["})
        for name in ("checkpoint", "remat", "pjit")
    },
    "complex/log2.complex": ("complex/log.complex", {" log[": " log2["}),
    "complex/one_minus_square.complex": (
        "complex/square.complex",
        {" square ": " one_minus_square "},
    ),
    "complex/polynomial.complex": ("complex/add.complex", {" add a b": " polynomial a b b"}),
    "complex/atan2.complex": ("complex/add.complex", {" add ": " atan2 "}),
    "complex/copy_p.complex": ("complex/copy.complex", {" copy ": " copy_p "}),
    "types/empty2": ("types/empty", {" empty[": " empty2["}),
    "types/copy_p": ("types/copy", {" copy ": " copy_p "}),
    "unsupported/psum": ("calls/psum", {"axes=(0,)": 'axes=("d",)'}),
    "unsupported/round": ("elementwise/round", {"AWAY_FROM_ZERO": "UPWARD", "=0": "=7"}),
    "unsupported/schur.sorted": (
        "linear_algebra/schur",
        {"sort_eig_vals=False": "sort_eig_vals=True"},
    ),
    # Programs that no version produces: a missing parameter, and a result of the wrong type.
    "unsupported/transpose.missing_parameter": (
        "movement/transpose",
        {"[permutation=(1, 0)]": ""},
    ),
    "unsupported/neg.wrong_type": ("elementwise/neg", {"b:f32[2,3]": "b:f32[3,2]"}),
}
