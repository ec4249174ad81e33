"""Programs that the tested version of JAX does not produce, or expands before recording: by file, a
similar program and the replacements in it.
"""

_CALLS = ("closed_call", "core_call", "call_hi_primitive", "eval_jaxpr", "scaled_matmul_wrapper")


def _call(name: str) -> dict[str, str]:
    return {" jit[": f" {name}[", " jaxpr=": " call_jaxpr=", "[jaxpr=": "[call_jaxpr="}


PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    **{f"control_flow/{name}": ("control_flow/jit", _call(name)) for name in _CALLS},
    "control_flow/pjit": ("control_flow/jit", {" jit[": " pjit["}),
    "control_flow/checkpoint": ("control_flow/remat2", {" remat2[": " checkpoint["}),
    "control_flow/remat": ("control_flow/remat2", {" remat2[": " remat["}),
    "control_flow/custom_vjp_call_jaxpr": (
        "control_flow/custom_vjp_call",
        {" custom_vjp_call[": " custom_vjp_call_jaxpr[", "call_jaxpr=": "fun_jaxpr="},
    ),
    "elementwise/log2": ("elementwise/log", {" log[": " log2["}),
    "elementwise/one_minus_square": ("elementwise/square", {" square ": " one_minus_square "}),
    "elementwise/polynomial": ("elementwise/clamp.arrays", {" clamp ": " polynomial "}),
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
    "movement/empty2": ("movement/empty", {" empty[": " empty2["}),
    "movement/copy_p": ("movement/copy", {" copy ": " copy_p "}),
    "errors/psum": ("reduction/psum", {"axes=(0,)": 'axes=("d",)'}),
    "errors/round": ("elementwise/round", {"AWAY_FROM_ZERO": "UPWARD", "=0": "=7"}),
    "errors/schur.sorted": (
        "linear_algebra/schur",
        {"sort_eig_vals=False": "sort_eig_vals=True"},
    ),
    # Programs that no version produces: a missing parameter, and a result of the wrong type.
    "errors/transpose.missing_parameter": (
        "movement/transpose",
        {"[permutation=(1, 0)]": ""},
    ),
    "errors/neg.wrong_type": ("elementwise/neg", {"b:f32[2,3]": "b:f32[3,2]"}),
}
