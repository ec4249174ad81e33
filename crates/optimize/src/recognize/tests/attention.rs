//! Attention with scaled, masked and moved scores.

use onnx::Assumption;
use tensor::DType;

use super::{constants, native, run};
use crate::{Form, Forms, Target};

const HEADS: &str = "float[B,2,T,4] q, float[B,2,S,4] k, float[B,2,S,4] v";

/// Returns the node that replaces `body`, as text, if it is attention.
fn attends(inputs: &str, body: &str) -> Option<String> {
    let numbers = constants(&[("half", "0.5"), ("minus", "-0.5"), ("least", "-3e38")]);
    let text = format!("g ({inputs}) => (float[B,2,T,4] y) {{ {numbers} {body} }}");
    let (text, _) = run(&text, native());
    let line = text.lines().find(|line| line.contains("= Attention"));
    assert_eq!(line.is_some(), !text.contains("Softmax"), "{text}");
    line.and_then(|line| line.split("  #").next()).map(|line| line.trim().to_owned())
}

fn is_attention(inputs: &str, body: &str, expected: &str) {
    assert_eq!(attends(inputs, body).as_deref(), Some(expected), "{body}");
}

/// The products with keys, called `s`.
const SCORES: &str = "t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul (q, t)";
/// The values weighted by the softmax of `z`.
const WEIGHED: &str = "w = Softmax <axis = -1> (z) y = MatMul (w, v)";

#[test]
fn scores_are_scaled_before_or_after() {
    let expected = "y = Attention <scale: float = 0.5> (q, k, v)";
    is_attention(HEADS, &format!("{SCORES} z = Mul (s, half) {WEIGHED}"), expected);
    let before = "t = Transpose <perm = [0, 1, 3, 2]> (k) h = Mul (q, half) z = MatMul (h, t)";
    is_attention(HEADS, &format!("{before} {WEIGHED}"), expected);
    let expected = "y = Attention <scale: float = 1.0> (q, k, v)";
    is_attention(HEADS, &format!("{SCORES} z = Identity (s) {WEIGHED}"), expected);
}

#[test]
fn other_weights_are_not_attention() {
    // Runtimes take the square root of the scale.
    assert_eq!(attends(HEADS, &format!("{SCORES} z = Mul (s, minus) {WEIGHED}")), None);
    let of_queries = "w = Softmax <axis = -2> (s) y = MatMul (w, v)";
    assert_eq!(attends(HEADS, &format!("{SCORES} {of_queries}")), None);
}

#[test]
fn masks_and_biases_are_operands() {
    let inputs = format!("{HEADS}, bool[B,1,T,S] m, float[2,T,S] b");
    let scaled = format!("{SCORES} u = Mul (s, half)");
    // The mask value is finite, so the weights of a fully masked row are equal.
    let masked = attends(&inputs, &format!("{scaled} z = Where (m, u, least) {WEIGHED}"));
    let masked = masked.unwrap_or_default();
    assert!(masked.starts_with("y = Attention <scale: float = 0.5> (q, k, v, "), "{masked}");
    assert!(!masked.ends_with(", m)"), "{masked}");
    is_attention(
        &inputs,
        &format!("{scaled} n = Where (m, half, least) z = Add (u, n) {WEIGHED}"),
        "y = Attention <scale: float = 0.5> (q, k, v, n)",
    );
    // The bias may be -inf for all keys, for which JAX computes NaN.
    assert_eq!(attends(&inputs, &format!("{scaled} z = Add (u, b) {WEIGHED}")), None);
}

/// The mask of one decoding step has an axis that the scores have lost.
#[test]
fn a_mask_may_have_a_higher_rank_than_the_scores() {
    let inputs = "float[2,1,2,4] q, float[2,5,2,4] k, float[2,5,2,4] v, bool[1,1,1,1,5] m";
    let text = format!(
        "g ({inputs}) => (float[2,1,2,4] y) {{ {}
            four = Constant <value_ints = [2, 2, 1, 4]> ()
            r = Reshape (q, four)
            t = Transpose <perm = [0, 2, 3, 1]> (k)
            s = MatMul (r, t)
            u = Mul (s, half)
            z = Where (m, u, least)
            w = Softmax <axis = -1> (z)
            x = Transpose <perm = [0, 2, 1, 3]> (v)
            p = MatMul (w, x)
            back = Constant <value_ints = [2, 1, 2, 4]> ()
            y = Reshape (p, back)
        }}",
        constants(&[("half", "0.5"), ("least", "-3e38")])
    );
    let (text, _) = run(&text, native());
    assert!(text.contains("= Attention") && !text.contains("Softmax"), "{text}");
}

/// Attention of one token over a cache, whose update comes between `inputs` and the products.
fn cached(update: &str, forms: Forms) -> (String, Vec<String>) {
    let inputs =
        "float[B,2,1,8] q, float[B,2,1,8] k, float[B,2,1,8] v, float[B,2,6,8] a, float[B,2,6,8] b";
    let outputs = "float[B,2,1,8] y, float[B,2,7,8] c, float[B,2,7,8] d";
    let text = format!(
        "g ({inputs}) => ({outputs}) {{ {} {update}
            t = Transpose <perm = [0, 1, 3, 2]> (c) s = MatMul (q, t) u = Mul (s, half)
            w = Softmax <axis = -1> (u) y = MatMul (w, d) }}",
        constants(&[("half", "0.5")])
    );
    let (text, report) = run(&text, forms);
    (text, report.missed.into_iter().map(|missed| missed.reason).collect())
}

pub(super) const APPENDED: &str = "c = Concat <axis = 2> (a, k) d = Concat <axis = 2> (b, v)";

pub(super) fn grouped() -> Forms {
    let named = [("GroupQueryAttention".to_owned(), Form::Native)].into();
    Forms { named, ..Forms::auto(onnx::schema::NEWEST) }
}

#[test]
fn attention_over_a_cache_updates_it() {
    let (text, missed) = cached(APPENDED, grouped());
    let line = text.lines().find(|line| line.contains("GroupQueryAttention")).unwrap_or_default();
    assert!(line.contains(", c, d = ") && line.contains("num_heads"), "{text} {missed:?}");
    assert!(!text.contains("= Concat") && !text.contains("Softmax"), "{text}");
}

#[test]
fn contributed_operators_are_named_explicitly() {
    let (text, _) = cached(APPENDED, native());
    assert!(!text.contains("GroupQueryAttention"), "{text}");
}

#[test]
fn caches_that_are_not_appended_to_stay() {
    let reversed = "c = Concat <axis = 2> (k, a) d = Concat <axis = 2> (v, b)";
    let (text, missed) = cached(reversed, grouped());
    assert!(text.contains("Softmax"), "{text}");
    assert_eq!(missed, ["its queries, keys and values are not of the same new tokens"]);
}

/// The softmax of the scores `u` of seven tokens and `sink`.
const SUNK: &str = "
    n = Shape <start = 0, end = 1> (q)
    rest = Constant <value_ints = [2, 1, 1]> ()
    all = Concat <axis = 0> (n, rest)
    e = Expand (sink, all)
    j = Concat <axis = -1> (u, e)
    w = Softmax <axis = -1> (j)
    zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
    seven = Constant <value_ints = [7]> () eight = Constant <value_ints = [8]> ()
    last = Constant <value_ints = [3]> ()";

/// Attention of one token over a cache, with a sink in the softmax of which `kept` is a part.
fn with_sink(sink: &str, kept: &str) -> (String, Vec<String>) {
    let inputs = "float[B,2,1,8] q, float[B,2,1,8] k, float[B,2,1,8] v, float[B,2,6,8] a";
    let outputs = "float[B,2,1,8] y, float[B,2,7,8] c, float[B,2,7,8] d";
    let text = format!(
        "g ({inputs}, float[B,2,6,8] b, {sink} sink) => ({outputs}) {{
            {} {APPENDED}
            t = Transpose <perm = [0, 1, 3, 2]> (c) s = MatMul (q, t) u = Mul (s, half)
            {SUNK} p = Slice (w, {kept}, last)
            y = MatMul (p, d) }}",
        constants(&[("half", "0.5")])
    );
    let (text, report) = run(&text, grouped());
    (text, report.missed.into_iter().map(|missed| missed.reason).collect())
}

#[test]
fn sinks_are_an_operand_of_the_node() {
    let (text, missed) = with_sink("float[1,2,1,1]", "zero, seven");
    let line = text.lines().find(|line| line.contains("GroupQueryAttention")).unwrap_or_default();
    assert!(line.contains("num_heads") && !text.contains("Softmax"), "{text} {missed:?}");
}

#[test]
fn sinks_have_the_type_of_the_queries() {
    let after = |sink: &str| {
        let text = format!(
            "g (float16[B,2,1,8] q, float16[B,2,1,8] k, float16[B,2,1,8] v, float16[B,2,6,8] a,
                float16[B,2,6,8] b, {sink}[1,2,1,1] own) =>
                (float16[B,2,1,8] y, float16[B,2,7,8] c, float16[B,2,7,8] d) {{
                {} {APPENDED}
                t = Transpose <perm = [0, 1, 3, 2]> (c) s = MatMul (q, t)
                s32 = Cast <to = 1> (s) u = Mul (s32, half) sink = Cast <to = 1> (own)
                {SUNK} p = Slice (w, zero, seven, last) p16 = Cast <to = 10> (p)
                y = MatMul (p16, d) }}",
            constants(&[("half", "0.5")])
        );
        let target = Target::all().find(|target| target.rounds_once).unwrap();
        let (text, report) = run(&text, Forms { target, ..grouped() });
        (text, report.missed.into_iter().map(|missed| missed.reason).collect::<Vec<_>>())
    };
    let (text, missed) = after("float16");
    assert!(text.contains("GroupQueryAttention") && !text.contains("Softmax"), "{text} {missed:?}");
    let (text, missed) = after("float");
    assert!(text.contains("Softmax"), "{text}");
    assert_eq!(missed, ["its sinks have more digits than its queries"]);
}

#[test]
fn rotations_with_more_digits_are_reported() {
    let text = format!(
        "g (float16[B,2,1,16] own, float16[B,2,1,16] k, float16[B,2,1,16] v, float16[B,2,6,16] a,
            float16[B,2,6,16] b, float[B,1,8] cos, float[B,1,8] sin) =>
            (float16[B,2,1,16] y, float16[B,2,7,16] c, float16[B,2,7,16] d) {{
            {} {APPENDED}
            wide = Cast <to = 1> (own) rotated = RotaryEmbedding (wide, cos, sin)
            q = Cast <to = 10> (rotated)
            t = Transpose <perm = [0, 1, 3, 2]> (c) s = MatMul (q, t)
            s32 = Cast <to = 1> (s) u = Mul (s32, half)
            w = Softmax <axis = -1> (u) w16 = Cast <to = 10> (w)
            y = MatMul (w16, d) }}",
        constants(&[("half", "0.5")])
    );
    let target = Target::all().find(|target| target.rounds_once).unwrap();
    let (text, report) = run(&text, Forms { target, ..grouped() });
    assert!(text.contains("GroupQueryAttention") && text.contains("RotaryEmbedding"), "{text}");
    let missed: Vec<_> = report.missed.iter().map(|missed| missed.reason.as_str()).collect();
    let reason =
        "it rotates in f32, and the operator has cosines and sines in f16, which has fewer digits";
    assert_eq!(missed, [reason]);
}

#[test]
fn other_columns_of_the_softmax_stay() {
    let cases = [
        ("float[1,1,1,1]", "zero, seven", "its sinks are not one number for each head"),
        (
            "float[1,2,1,1]",
            "one, eight",
            "its weights are a part of a softmax, but not all except for a sink",
        ),
    ];
    for (sink, kept, reason) in cases {
        let (text, missed) = with_sink(sink, kept);
        assert!(text.contains("Softmax"), "{text}");
        assert_eq!(missed, [reason]);
    }
}

/// Without half precision on a device that rounds once, the mask is added.
#[test]
fn queries_that_see_no_key_become_zero_and_see_all_keys() {
    let target = Target::all().find(|target| target.rounds_once).unwrap();
    let text = |dtype: &str| {
        format!(
            "g (float16[B,2,T,4] h, {dtype}[B,2,S,4] k, {dtype}[B,2,S,4] v, bool[B,1,T,S] m) => ({dtype}[B,2,T,4] y) {{
                {} q = Cast <to = 1> (h) {SCORES} z = Where (m, s, least) {WEIGHED} }}",
            constants(&[("least", "-3e38")])
        )
    };
    let forms = Forms { target, ..native() };
    let (opened, _) = run(&text("float"), forms.clone());
    for part in ["ReduceMax (m, ", "Not (", "Or (m, ", "Where (", ", h, ", "Attention <"] {
        assert!(opened.contains(part), "{part} in {opened}");
    }
    // -inf for all keys is NaN in JAX.
    let (infinite, _) = run(&text("float").replace("-3e38", "-inf"), forms);
    assert!(infinite.contains("Softmax"), "{infinite}");
    let (added, _) = run(&text("float"), native());
    assert!(added.contains("Attention <") && !added.contains("ReduceMax"), "{added}");
}

/// A kernel may be slower than products in a special case.
#[test]
fn attention_stays_elementary_where_it_was_measured_slower() {
    let is_slow = |target: &Target| target.measured.is_slower("Attention", "one query", DType::F32);
    let target = Target::all().find(is_slow).unwrap();
    let found = |queries: &str, dtype: &str| {
        let q = format!("{dtype}[B,2,{queries},4] q");
        let text = format!(
            "g ({q}, {dtype}[B,2,S,4] k, {dtype}[B,2,S,4] v) => ({dtype}[B,2,{queries},4] y) {{
                {SCORES} z = Identity (s) {WEIGHED} }}"
        );
        run(&text, Forms { target, ..Forms::auto(23) }).0.contains("Attention <")
    };
    for dtype in ["float", "float16"] {
        assert!(found("8", dtype), "{dtype}");
        assert!(!found("1", dtype), "{dtype}");
    }
}

const WHERE: &str = "z = Where (m, s, least)";

/// Positions along the last axis and along the one before it, for any number of tokens.
const PLACES: &str = "none = Constant <value_ints = [0]> () first = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> () t_size = Shape <start = 2, end = 3> (q) t0 = Squeeze (t_size, none)
    row = Range (first, t0, one) last = Constant <value_ints = [1]> () column = Unsqueeze (row, last)";

#[test]
fn triangles_are_causal() {
    let same = HEADS.replace("S,4]", "T,4]");
    let attends = |mask: &str| {
        let body = format!("{PLACES} {mask} {SCORES} {WHERE} {WEIGHED}");
        attends(&same, &body).unwrap_or_default()
    };
    let causal = "y = Attention <is_causal: int = 1, scale: float = 1.0> (q, k, v)";
    assert_eq!(attends("m = LessOrEqual (row, column)"), causal);
    for other in ["Less (row, column)", "GreaterOrEqual (row, column)"] {
        let found = attends(&format!("m = {other}"));
        assert!(found.starts_with("y = Attention <scale") && !found.ends_with("m)"), "{found}");
    }
}

/// Returns the node for attention of two tokens with the constant `m`, as text.
fn of_two_tokens(constant: &str, scores: &str) -> String {
    let sizes = HEADS.replace("T,4]", "2,4]").replace("S,4]", "2,4]");
    let text = format!(
        "g ({sizes}) => (float[B,2,2,4] y) {{ {} m = Constant <value = {constant}> ()
            {SCORES} {scores} {WEIGHED} }}",
        constants(&[("least", "-3e38")])
    );
    let (text, _) = run(&text, native());
    let line = text.lines().find(|line| line.contains("= Attention")).unwrap_or_default();
    line.split("  #").next().unwrap_or_default().trim().to_owned()
}

#[test]
fn stored_masks_are_causal_or_show_some_keys() {
    let mask = |mask: &str| of_two_tokens(&format!("bool[2,2] {{{mask}}}"), WHERE);
    let causal = "y = Attention <is_causal: int = 1, scale: float = 1.0> (q, k, v)";
    assert_eq!(mask("1, 0, 1, 1"), causal);
    for others in ["1, 1, 0, 1", "1, 0, 0, 1", "1, 1, 1, 1"] {
        let found = mask(others);
        assert!(found.starts_with("y = Attention <scale: float = 1.0> (q, k, v, "), "{found}");
    }
    // The mask of rows that it hides is added.
    assert!(mask("0, 0, 1, 1").starts_with("y = Attention <scale: float = 1.0> (q, k, v, "));
}

#[test]
fn stored_biases_show_a_key_to_each_query() {
    let bias = |bias: &str| of_two_tokens(&format!("float[2,2] {{{bias}}}"), "z = Add (s, m)");
    let added = "y = Attention <scale: float = 1.0> (q, k, v, ";
    let (hidden, low) = (f64::from(f32::MIN) * 0.995, f64::from(f32::MIN) * 0.98);
    for visible in ["0, -inf, -inf, 0".to_owned(), format!("{low}, {hidden}, 0, 0")] {
        assert!(bias(&visible).starts_with(added), "{visible}");
    }
    for blind in ["-inf, -inf, 0, 0".to_owned(), format!("0, 0, {hidden}, {hidden}")] {
        assert_eq!(bias(&blind), "", "{blind}");
    }
}

#[test]
fn masks_are_assumed_to_show_keys() {
    let inputs = format!("{HEADS}, bool[B,1,T,S] m");
    let text = format!(
        "g ({inputs}) => (float[B,2,T,4] y) {{ {} {SCORES} {WHERE} {WEIGHED} }}",
        constants(&[("least", "-inf")])
    );
    let assuming = |assumption: Option<Assumption>| {
        let (graph, report) = super::recognized_in(&text, native(), |graph| {
            graph.assumptions = assumption.into_iter().collect();
        });
        let reasons: Vec<_> = report.missed.into_iter().map(|missed| missed.reason).collect();
        (onnx::text::print(&graph).contains("Attention <"), reasons.join(", "))
    };
    assert_eq!(assuming(Some(Assumption::VisibleKeys)), (true, String::new()));
    assert!(assuming(None).1.starts_with("a query that sees no keys would get zeros"));
}

/// Half precision has no number that hides keys when it is added.
#[test]
fn masks_in_half_precision_show_keys() {
    let text = |least: &str| {
        let inputs = HEADS.replace("float", "float16");
        format!(
            "g ({inputs}, bool[B,1,T,S] m) => (float16[B,2,T,4] y) {{
                least = Constant <value = float16 {{{least}}}> () {SCORES} {WHERE} {WEIGHED} }}"
        )
    };
    let (_, report) = run(&text("-60000.0"), native());
    let reason = "a query that sees no keys would get zeros, and gets a mean in JAX: assume \
                 `visible_keys` if there is none";
    assert_eq!(report.missed[0].reason, reason);
    // The bound itself hides keys, and larger numbers do not.
    assert_eq!(run(&text("-30000.0"), native()).1.missed[0].reason, reason);
    let above = run(&text("-29984.0"), native()).1;
    assert_eq!(above.missed[0].reason, "masked scores are not far below the others");
    let target = Target::all().find(|target| target.rounds_once).unwrap();
    let (opened, _) = run(&text("-60000.0"), Forms { target, ..native() });
    assert!(opened.contains("ReduceMax (m, ") && opened.contains("Attention <"), "{opened}");
    let wide = text("-1e38").replace("float16", "float");
    let narrowed = |narrows| run(&wide, Forms { target, narrows, ..native() }).0;
    assert!(narrowed(true).contains("ReduceMax (m, "));
    assert!(!narrowed(false).contains("ReduceMax (m, "));
}

#[test]
fn lengths_are_read_from_comparisons_with_positions() {
    let attention = |lengths: &str, nodes: &str| {
        let text = format!(
            "g ({HEADS}, int64[{lengths}] n) => (float[B,2,T,4] y) {{ {}
                none = Constant <value_ints = [0]> () first = Constant <value = int64 {{0}}> ()
                one = Constant <value = int64 {{1}}> () two = Constant <value = int64 {{2}}> ()
                size = Shape <start = 2, end = 3> (k) all = Squeeze (size, none)
                keys = Range (first, all, one) known = Max (n, one)
                {nodes} {SCORES} {WHERE} {WEIGHED} }}",
            constants(&[("least", "-3e38")])
        );
        let (text, report) = run(&text, native());
        let line = text.lines().find(|line| line.contains("= Attention"));
        let line = line.unwrap_or_else(|| panic!("{text} {:?}", report.missed));
        // Lengths are the seventh operand.
        line.split_once("(q,").unwrap().1.split(')').next().unwrap().matches(',').count() == 5
    };
    assert!(attention("B,1,1,1", "m = Less (keys, known)"));
    assert!(attention("B,1,1,1", "m = LessOrEqual (keys, known)"));
    assert!(attention("1", "m = Less (keys, known)"));
    for (lengths, nodes) in [
        // One for each head or query, and none of them.
        ("B,2,1,1", "m = Less (keys, known)"),
        ("1,2,1,1", "m = Less (keys, known)"),
        ("B,1,T,1", "m = Less (keys, known)"),
        ("B,1,1,1", "m = Less (keys, n)"),
        // Every third key, or the keys after others.
        ("B,1,1,1", "three = Add (two, one) rest = Mod (keys, three) m = Less (rest, known)"),
        ("B,1,1,1", "three = Mul (keys, two) m = Less (three, known)"),
        ("B,1,1,1", "m = Less (known, keys)"),
        ("B,1,1,1", "more = Add (keys, n) m = Less (more, known)"),
    ] {
        assert!(!attention(lengths, nodes), "{lengths} {nodes}");
    }
}

#[test]
fn operands_without_the_heads_of_the_queries_are_not_attention() {
    let shared = |name: &str| HEADS.replace(&format!("2,S,4] {name}"), &format!("1,S,4] {name}"));
    let body = format!("{SCORES} z = Mul (s, half) {WEIGHED}");
    assert_eq!(attends(&shared("v"), &body), None);
    assert_eq!(attends(&shared("k"), &body), None);
    assert_eq!(
        attends(
            HEADS,
            &body
                .replace("half", "nothing")
                .replace("t =", "nothing = Constant <value_float = 0.0> () t =")
        ),
        None
    );
}

#[test]
fn heads_may_be_a_part_of_the_last_axis() {
    let heads = |name: &str| {
        format!(
            "{name}4 = Reshape ({name}, heads) {name}h = Transpose <perm = [0, 2, 1, 3]> ({name}4)"
        )
    };
    let text = format!(
        "g (float[B,T,8] q, float[B,T,8] k, float[B,T,8] v) => (float[B,T,8] y) {{
            heads = Constant <value_ints = [0, 0, 2, 4]> () {} {} {}
            t = Transpose <perm = [0, 1, 3, 2]> (kh) s = MatMul (qh, t) w = Softmax <axis = -1> (s)
            o = MatMul (w, vh) p = Transpose <perm = [0, 2, 1, 3]> (o)
            flat = Constant <value_ints = [0, 0, 8]> () y = Reshape (p, flat) }}",
        heads("q"),
        heads("k"),
        heads("v")
    );
    let (text, _) = run(&text, native());
    let node = "Attention <scale: float = 1.0, q_num_heads: int = 2, kv_num_heads: int = 2>";
    let sorted = |text: &str| text.contains("q_num_heads: int = 2") && text.contains("(q, k, v)");
    assert!(sorted(&text), "{node}: {text}");
}

#[test]
fn masks_differ_along_whole_axes() {
    let text = |mask: &str| {
        format!(
            "g (float[3,5,2,6,4] q, float[3,5,2,7,4] k, float[3,5,2,7,4] v, bool[{mask},1,6,7] m)
                => (float[3,5,2,6,4] y) {{ {}
                t = Transpose <perm = [0, 1, 2, 4, 3]> (k) s = MatMul (q, t) {WHERE} {WEIGHED} }}",
            constants(&[("least", "-3e38")])
        )
    };
    for mask in ["3,5", "1,1"] {
        let (text, _) = run(&text(mask), native());
        assert!(text.contains("= Attention"), "{text}");
    }
    // A mask along the first axis of the batch makes the second one heads.
    let (heads, _) = run(&text("3,1"), native());
    assert!(heads.contains("# float[3,10,6,4]") && heads.contains("# bool[3,1,6,7]"), "{heads}");
    let (second, report) = run(&text("1,5"), native());
    assert!(second.contains("Softmax"), "{second}");
    assert_eq!(report.missed[0].reason, "the mask is not one of queries and keys");
}
