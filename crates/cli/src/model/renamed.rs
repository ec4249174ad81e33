//! Recovery of original names from names that runtimes derive.

/// The maximum number of times that a runtime renames a node.
const STEPS: usize = 6;

/// Returns the names that `name` may have had in the model, most likely first. `functions` are the
/// names of the model's functions.
pub(crate) fn originals(name: &str, functions: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut name = name;
    for _ in 0..STEPS {
        let Some(shorter) = unwrap(name, functions) else { break };
        found.push(shorter.to_owned());
        name = shorter;
    }
    found
}

/// Undoes one renaming.
fn unwrap<'n>(name: &'n str, functions: &[&str]) -> Option<&'n str> {
    inlined(name, functions)
        .or_else(|| value_in_branch(name))
        .or_else(|| fused(name))
        .or_else(|| name.strip_prefix("fused "))
        .or_else(|| name.strip_prefix("InsertedPrecisionFreeCast_"))
        .or_else(|| name.strip_prefix("InsertedCast_"))
        .or_else(|| {
            const ENDS: [&str; 8] = [
                "_bn_nchwc",
                "_mul_nchwc",
                "_nchwc",
                "_nhwc",
                "_quant",
                "_new_reshape",
                "_pre_reshape",
                "_post_reshape",
            ];
            ENDS.iter().find_map(|end| name.strip_suffix(end))
        })
        .or_else(|| numbered(name))
        .or_else(|| counted(name, "_token_"))
        .or_else(|| counted(name, "_output_"))
        .or_else(|| name.strip_suffix('/').filter(|rest| !rest.is_empty()))
}

/// The prefix that onnxruntime adds to the names of inlined nodes and values, before the function's
/// name.
const INLINED: &str = "_inlfunc_";

/// Returns the prefix that onnxruntime adds to all names of an inlined call. The first call to a
/// function in a graph has no number; the others are numbered consecutively.
pub(super) fn inlined_prefix(function: &str, number: Option<usize>) -> String {
    match number {
        None => format!("{INLINED}{function}"),
        Some(number) => format!("{INLINED}{function}_token_{number}"),
    }
}

/// Returns the part of a name that starts with such a prefix.
pub(super) fn from_inlined(name: &str) -> Option<&str> {
    name.find(INLINED).map(|at| &name[at..])
}

/// Returns `true` if a runtime gave a node or a value this name when it inlined a function.
pub(crate) fn is_inlined(name: &str) -> bool {
    from_inlined(name).is_some() || numbered(name).is_some()
}

/// Returns the name that a node or a value had inside its function, without knowledge of the
/// function names. onnxruntime prepends the function's name and optionally the number of the call:
/// `_inlfunc_F_token_2_/F/Add`. ONNX's own inliner appends a number: `/F/Add__2`.
pub fn before_inlining(name: &str) -> Option<&str> {
    match from_inlined(name) {
        Some(name) => inlined(name, &[]),
        None => numbered(name),
    }
}

/// Returns the prefix and the suffix that a runtime adds to all names of one inlined call.
pub(super) fn call_of(name: &str) -> Option<(&str, &str)> {
    match from_inlined(name) {
        Some(name) => {
            let own = inlined(name, &[])?;
            Some((&name[..name.len() - own.len()], ""))
        }
        None => numbered(name).map(|own| ("", &name[own.len()..])),
    }
}

/// Strips the prefix from `_inlfunc_f_body_add`, or from `_inlfunc_f_token_0_body_add` for later
/// calls. If no known function matches, the node's own name begins at the first slash, as exported
/// names do.
fn inlined<'n>(name: &'n str, functions: &[&str]) -> Option<&'n str> {
    let rest = name.strip_prefix(INLINED)?;
    let called = |function: &&str| rest.strip_prefix(*function)?.strip_prefix('_');
    // `f_g` may be the function `f_g`, or `g` inside `f`: the longest name fits best.
    let Some(rest) = functions.iter().filter_map(called).min_by_key(|rest| rest.len()) else {
        return rest.find('/').map(|slash| &rest[slash..]);
    };
    let Some(numbered) = rest.strip_prefix("token_") else { return Some(rest) };
    let (number, rest) = numbered.split_once('_')?;
    number.parse::<u64>().is_ok().then_some(rest)
}

/// The prefixes that onnxruntime adds to names when it replaces an `If` with a constant condition by
/// the nodes of a branch, with the attribute of the branch.
const BRANCHES: [(&str, &str); 2] =
    [("_if_then_branch", "then_branch"), ("_if_else_branch", "else_branch")];

/// Strips the prefix from `_if_else_branch_/Add_output_0` or `_if_else_branch_token_2_/Add_output_0`.
/// Returns the branch, and the name that the value had in it.
fn out_of_branch(name: &str) -> Option<(&'static str, &str)> {
    let stripped = |(prefix, attribute): &(&str, &'static str)| {
        Some((*attribute, name.strip_prefix(prefix)?.strip_prefix('_')?))
    };
    let (attribute, rest) = BRANCHES.iter().find_map(stripped)?;
    let Some(numbered) = rest.strip_prefix("token_") else { return Some((attribute, rest)) };
    let (number, rest) = numbered.split_once('_')?;
    number.parse::<u64>().is_ok().then_some((attribute, rest))
}

/// Returns the name that a value had in a branch before it was inlined.
fn value_in_branch(name: &str) -> Option<&str> {
    out_of_branch(name).map(|(_, rest)| rest).filter(|_| node_in_branch(name).is_none())
}

/// Returns the name that a value had before its branch and the enclosing branches were inlined.
pub(super) fn in_branch(mut name: &str) -> &str {
    for _ in 0..STEPS {
        let Some(rest) = value_in_branch(name) else { break };
        name = rest;
    }
    name
}

/// A node of an inlined branch. onnxruntime names it after its operator:
/// `_if_else_branch_Add_token_3`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeInBranch<'n> {
    /// The start of the names of all nodes of the branch.
    pub(crate) prefix: &'n str,
    /// The attribute of the `If`.
    pub(crate) attribute: &'static str,
    pub(crate) op: &'n str,
}

/// Returns the node of an inlined branch that `name` refers to. It may have been fused afterwards.
pub(crate) fn node_in_branch(name: &str) -> Option<NodeInBranch<'_>> {
    let name = name.strip_prefix("fused ").unwrap_or(name);
    let (attribute, rest) = out_of_branch(name)?;
    let prefix = &name[..name.len() - rest.len()];
    let rest = rest.split('/').next().unwrap_or_default();
    let op = counted(rest, "_token_").unwrap_or(rest);
    let is_operator = !op.is_empty() && op.bytes().all(|b| b.is_ascii_alphanumeric());
    is_operator.then_some(NodeInBranch { prefix, attribute, op })
}

/// Strips the number from `/F/Add__2`.
fn numbered(name: &str) -> Option<&str> {
    let (name, number) = name.rsplit_once("__")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(name)
}

/// Strips the fusion from `x/MatMulAddFusion`, which may end with a slash.
fn fused(name: &str) -> Option<&str> {
    let (rest, last) = name.trim_end_matches('/').rsplit_once('/')?;
    let is_fusion = last.ends_with("Fusion") || last.ends_with("fusion") || last == "duplicated";
    (is_fusion && !rest.is_empty()).then_some(rest)
}

/// Strips the number from `x_token_12`.
fn counted<'n>(name: &'n str, separator: &str) -> Option<&'n str> {
    let (rest, number) = name.rsplit_once(separator)?;
    (!rest.is_empty() && number.parse::<u64>().is_ok()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_inlined_call_share_a_prefix_or_a_suffix() {
        for (name, call) in [
            ("_inlfunc_F_token_2_/F/Add", Some(("_inlfunc_F_token_2_", ""))),
            ("_inlfunc_F_/F/Add", Some(("_inlfunc_F_", ""))),
            ("outer/_inlfunc_F_/F/Add", Some(("_inlfunc_F_", ""))),
            ("/F/Add__2", Some(("", "__2"))),
            ("/F/Add", None),
            ("/F/Add__", None),
            ("/F/Add__x", None),
        ] {
            assert_eq!(call_of(name), call, "{name}");
            assert_eq!(is_inlined(name), call.is_some(), "{name}");
        }
        assert_eq!(before_inlining("_inlfunc_F_token_2_/F/Add"), Some("/F/Add"));
        assert_eq!(before_inlining("/F/Add__2"), Some("/F/Add"));
        assert_eq!(before_inlining("/F/Add"), None);
    }

    #[test]
    fn derived_names_lead_back_to_the_originals() {
        for (name, original) in [
            ("/q/MatMul/MatMulAddFusion", "/q/MatMul"),
            ("/attn/MatMul/MatMulScaleFusion/", "/attn/MatMul"),
            ("fused /dense/Gemm", "/dense/Gemm"),
            ("/conv1/Add_nchwc", "/conv1/Add"),
            ("/a/Reshape_3_new_reshape", "/a/Reshape_3"),
            ("/a/MatMul_output_0_pre_reshape", "/a/MatMul"),
            ("_inlfunc_f_body_add", "body_add"),
            ("_inlfunc_f_token_3_body_add", "body_add"),
            ("_inlfunc_f_long_body_add", "body_add"),
            ("_inlfunc_f__inlfunc_g_/a/Add", "/a/Add"),
            ("/a/Add_token_7", "/a/Add"),
            ("/a/Add__7", "/a/Add"),
            ("/a/Add_output_0", "/a/Add"),
            ("_if_else_branch_token_2_/a/Add_output_0", "/a/Add"),
        ] {
            let found = originals(name, &["f", "g", "f_long"]);
            assert!(found.iter().any(|found| found == original), "{name}: {found:?}");
        }
        assert!(originals("/q/MatMul", &[]).is_empty());
        assert!(originals("_inlfunc_unknown_x", &["f"]).is_empty());
        assert!(originals("////////", &[]).len() <= STEPS);
    }

    #[test]
    fn names_of_inlined_branches() {
        for (name, found) in [
            ("_if_else_branch_Add", Some(("_if_else_branch_", "else_branch", "Add"))),
            ("_if_then_branch_Add_token_3", Some(("_if_then_branch_", "then_branch", "Add"))),
            (
                "fused _if_else_branch_token_12_MatMul_token_3/MatMulAddFusion",
                Some(("_if_else_branch_token_12_", "else_branch", "MatMul")),
            ),
            ("_if_else_branch_/Add_output_0", None),
            ("_if_else_branch_", None),
            ("_if_else_branch_token_x_Add", None),
            ("/a/Add", None),
        ] {
            let found = found.map(|(prefix, attribute, op)| NodeInBranch { prefix, attribute, op });
            assert_eq!(node_in_branch(name), found, "{name}");
        }
        assert_eq!(in_branch("_if_else_branch_Add"), "_if_else_branch_Add", "not the node `Add`");
        let nested = "_if_else_branch__if_then_branch_token_4_/Add_output_0";
        assert_eq!(in_branch(nested), "/Add_output_0");
        assert_eq!(in_branch("/Add_output_0"), "/Add_output_0");
    }

    #[test]
    fn names_of_inlined_nodes_lead_back_to_the_function() {
        let names = [
            ("_inlfunc_Block_/Block/q/MatMul_output_0", Some("/Block/q/MatMul_output_0")),
            ("_inlfunc_my_F_token_12_/my_F/Add", Some("/my_F/Add")),
            ("fused _inlfunc_F_/F/Gemm", Some("/F/Gemm")),
            ("/Block/Add__12", Some("/Block/Add")),
            ("/Block/Add__", None),
            ("/Block/Add", None),
            ("_inlfunc_F_const", None),
        ];
        for (name, original) in names {
            assert_eq!(before_inlining(name), original, "{name}");
            assert!(is_inlined(name) || original.is_none(), "{name}");
        }
        assert!(!is_inlined("/Block/Add_12"));
    }

    #[test]
    fn what_remains_of_a_name_is_never_empty() {
        let names = |name: &str| originals(name, &[]);
        assert_eq!(names("/Add/"), ["/Add"]);
        assert_eq!(names("x/duplicated"), ["x"]);
        assert_eq!(names("x/layer_fusion/"), ["x"]);
        assert_eq!(names("x_token_12"), ["x"]);
        for name in ["/", "/GeluFusion", "_token_12", "x_token_y", "_output_0", "x/Confusing"] {
            assert_eq!(names(name), [""; 0], "{name}");
        }
    }
}
