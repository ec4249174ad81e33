//! Attention over a cache: its updates, its masks and its other readers.

use onnx::{Assumption, Graph};

use super::attention::grouped;
use super::recognized_in;

/// Attention of two new tokens after six others, whose keys and values are appended.
const APPENDED: &str =
    "g (float[1,2,2,8] q, float[1,2,2,8] k, float[1,2,2,8] v, float[1,2,6,8] a, float[1,2,6,8] b)
    => (float[1,2,2,8] y, float[1,2,8,8] c, float[1,2,8,8] d) {
    half = Constant <value_float: float = 0.5> () least = Constant <value_float: float = -3e38> ()
    queries = Constant <value = int64[2,1] {6, 7}> ()
    keys = Constant <value_ints = [0, 1, 2, 3, 4, 5, 6, 7]> ()
    c = Concat <axis = 2> (a, k) d = Concat <axis = 2> (b, v)
    t = Transpose <perm = [0, 1, 3, 2]> (c) s = MatMul (q, t) h = Mul (s, half)
    m = LessOrEqual (keys, queries)
    z = Where (m, h, least)
    w = Softmax <axis = -1> (z) y = MatMul (w, d) }";

/// The same, with keys and values that are written into buffers for twelve tokens.
fn written() -> String {
    with(&[
        ("[1,2,6,8]", "[1,2,12,8]"),
        ("[1,2,8,8]", "[1,2,12,8]"),
        ("6, 7]> ()\n    c", "6, 7, 8, 9, 10, 11]> ()\n    c"),
        (
            "c = Concat <axis = 2> (a, k) d = Concat <axis = 2> (b, v)",
            "places = Constant <value = int64[1,2,2,3] {0, 0, 6, 0, 0, 7, 0, 1, 6, 0, 1, 7}> ()
            c = ScatterND (a, places, k) d = ScatterND (b, places, v)",
        ),
    ])
}

fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old} in {text}");
        text.replace(old, new)
    })
}

fn with(changes: &[(&str, &str)]) -> String {
    replaced(APPENDED, changes)
}

/// Returns the attributes of the node and the numbers of the last token and of all tokens, or the
/// reason why there is no node.
fn attention(text: &str, assumed: &[Assumption]) -> Result<(String, i64, i64), String> {
    let (graph, report) = recognized_in(text, grouped(), |graph| {
        graph.assumptions = assumed.iter().copied().collect();
    });
    let mut nodes = graph.nodes_of(Graph::MAIN).map(|id| graph.node(id));
    let Some(node) = nodes.find(|node| node.op.name == "GroupQueryAttention") else {
        let reasons: Vec<_> = report.missed.into_iter().map(|missed| missed.reason).collect();
        return Err(reasons.join(", "));
    };
    let attrs = ["local_window_size", "sliding_window_cache"].map(|name| node.int(name, 0));
    let number = |index| {
        let found = graph.facts().approximate(node.input(index).unwrap(), 8).unwrap();
        found.to_i64s().unwrap()[0]
    };
    Ok((format!("{attrs:?}"), number(5), number(6)))
}

fn is_found(text: &str, window: i64) {
    let expected = Ok((format!("[{window}, 0]"), 7, 8));
    assert_eq!(attention(text, &[]), expected, "{text}");
}

fn stays(text: &str, reason: &str) {
    let found = attention(text, &[]);
    assert!(found.as_ref().is_err_and(|found| found.contains(reason)), "{found:?} {text}");
}

const UNKNOWN_MASK: &str = "its mask is not known to compare positions of queries and keys";
const LATER: &str = "its mask does not hide later tokens";

/// Returns attention whose mask is that of earlier tokens and `other`.
fn masked(other: &str) -> String {
    let both = format!("causal = LessOrEqual (keys, queries) {other} m = And (causal, other)");
    with(&[("m = LessOrEqual (keys, queries)", &both)])
}

#[test]
fn caches_are_appended_to_or_written_into() {
    is_found(APPENDED, 0);
    is_found(&written(), 0);
    let other = "its keys or values are not a cache";
    let thrice = [("(b, v)", "(b, v, f)"), ("[1,2,6,8] b)", "[1,2,5,8] b, float[1,2,1,8] f)")];
    stays(&with(&thrice), other);
    let sum = written().replace("ScatterND (b", "ScatterND <reduction = \"add\"> (b");
    stays(&sum, other);
    // The values are written at other places.
    let apart = replaced(
        &written(),
        &[(
            "d = ScatterND (b, places, v)",
            "others = Constant <value = int64[1,2,2,3] {0, 0, 5, 0, 0, 6, 0, 1, 5, 0, 1, 6}> ()
            d = ScatterND (b, others, v)",
        )],
    );
    stays(&apart, "not of the same new tokens");
}

#[test]
fn tokens_that_see_later_ones_are_missed() {
    let unmasked = ("z = Where (m, h, least)", "z = Identity (h)");
    let single = [
        ("2,8] q", "1,8] q"),
        ("2,8] k", "1,8] k"),
        ("2,8] v", "1,8] v"),
        ("2,8] y", "1,8] y"),
        ("2,6,8]", "2,7,8]"),
        ("int64[2,1] {6, 7}", "int64[1,1] {7}"),
    ];
    let no_mask = "it has no mask";
    stays(&with(&[unmasked]), no_mask);
    stays(&replaced(&written(), &[unmasked]), no_mask);
    // A single token after all others sees no later one, unless the buffer has more places.
    is_found(&with(&single), 0);
    is_found(&replaced(&with(&single), &[unmasked]), 0);
    let at_the_end = [
        (
            "int64[1,2,2,3] {0, 0, 6, 0, 0, 7, 0, 1, 6, 0, 1, 7}",
            "int64[1,2,1,3] {0, 0, 7, 0, 1, 7}",
        ),
        unmasked,
    ];
    let mut changes = [&single[..4], &single[5..], &at_the_end].concat();
    stays(&replaced(&written(), &changes), no_mask);
    changes.pop();
    is_found(&replaced(&written(), &changes), 0);
}

#[test]
fn windows_are_read_from_the_mask() {
    let after = |size: i64| {
        format!(
            "size = Constant <value = int64 {{{size}}}> () first = Sub (queries, size)
            other = Greater (keys, first)"
        )
    };
    for size in [1, 3, 8, 20] {
        is_found(&masked(&after(size)), size);
    }
    stays(&masked(&after(0)), UNKNOWN_MASK);
    let two = after(5).replace("other", "one").replace("size", "length").replace("first", "start");
    let both = format!("{two} {} other = And (one, two)", after(3).replace("other", "two"));
    is_found(&masked(&both), 3);
    // The window is that of a token, and not of the cache.
    stays(
        &masked("three = Constant <value = int64 {3}> () other = Greater (keys, three)"),
        UNKNOWN_MASK,
    );
}

#[test]
fn windows_of_buffers_are_whole() {
    let windowed = |size: i64| {
        masked(&format!(
            "size = Constant <value = int64 {{{size}}}> () first = Sub (queries, size)
            other = Greater (keys, first)"
        ))
    };
    for (size, is_windowed) in [(3, 1), (7, 1), (8, 0), (20, 0)] {
        let (attrs, ..) = attention(&windowed(size), &[Assumption::WindowedCaches]).unwrap();
        assert_eq!(attrs, format!("[{size}, {is_windowed}]"));
    }
}

#[test]
fn comparisons_without_effect_are_a_part_of_the_mask() {
    let compared = |comparison: &str, number: i64| {
        masked(&format!("number = Constant <value = int64 {{{number}}}> () other = {comparison}"))
    };
    for (comparison, most) in [
        // All keys are at least zero, and at most seven.
        ("GreaterOrEqual (keys, number)", 0),
        ("Less (number, keys)", -1),
        // All queries are at least six.
        ("GreaterOrEqual (queries, number)", 6),
    ] {
        is_found(&compared(comparison, most), 0);
        stays(&compared(comparison, most + 1), UNKNOWN_MASK);
    }
    is_found(&compared("LessOrEqual (keys, number)", 7), 0);
    stays(&compared("LessOrEqual (keys, number)", 6), UNKNOWN_MASK);
    // Bounds of queries from above are not understood.
    stays(&compared("LessOrEqual (queries, number)", 9), UNKNOWN_MASK);
    // Each head sees another number of keys.
    let of_heads =
        "heads = Constant <value = int64[2,1,1] {7, 8}> () other = LessOrEqual (keys, heads)";
    stays(&masked(of_heads), UNKNOWN_MASK);
}

#[test]
fn masks_of_other_tokens_stay() {
    let masked = |mask: &str| with(&[("m = LessOrEqual (keys, queries)", mask)]);
    is_found(
        &masked("one = Constant <value = int64 {1}> () n = Add (queries, one) m = Less (keys, n)"),
        0,
    );
    stays(
        &masked(
            "one = Constant <value = int64 {1}> () n = Add (queries, one) m = LessOrEqual (keys, n)",
        ),
        LATER,
    );
    stays(&masked("m = Less (keys, queries)"), UNKNOWN_MASK);
    stays(&masked("m = GreaterOrEqual (keys, queries)"), LATER);
    stays(&masked("seven = Constant <value = int64 {7}> () m = LessOrEqual (keys, seven)"), LATER);
}

#[test]
fn masked_scores_are_far_below_the_others() {
    is_found(&with(&[("-3e38", "-30000")]), 0);
    stays(&with(&[("-3e38", "-29999")]), "masked scores are not far below the others");
    let choice = |yes: &str| {
        with(&[(
            "z = Where (m, h, least)",
            &format!(
                "none = Constant <value_float: float = 0> () n = Where (m, {yes}, least) z = Add (h, n)"
            ),
        )])
    };
    is_found(&choice("none"), 0);
    stays(&choice("half"), "its scores have a bias");
}

#[test]
fn heads_have_multiples_of_eight_features() {
    let reason = "heads of equal sizes, in multiples of 8 features";
    stays(
        &APPENDED
            .replace(",8] q", ",4] q")
            .replace("8] k", "4] k")
            .replace("8] a", "4] a")
            .replace("8,8] c", "8,4] c"),
        reason,
    );
    stays(&APPENDED.replace(",8]", ",4]"), reason);
    stays(
        &APPENDED
            .replace(",8] v", ",16] v")
            .replace(",8] b", ",16] b")
            .replace(",8] y", ",16] y")
            .replace(",8] d", ",16] d"),
        reason,
    );
}

#[test]
fn other_readers_of_the_cache_need_it_as_it_is() {
    let read = |more: &str| {
        with(&[
            ("w = Softmax", &format!("{more} w = Softmax")),
            (" d) {", " d, float[1,2,8,8] e) {"),
        ])
    };
    let elsewhere = "its cache is also used elsewhere";
    for cache in ["c", "d"] {
        stays(&read(&format!("e = Exp ({cache})")), elsewhere);
        // It may be returned in another layout.
        is_found(&read(&format!("e = Transpose <perm = [0, 1, 3, 2]> ({cache})")), 0);
        let layout = format!("u = Transpose <perm = [0, 1, 3, 2]> ({cache}) e = Exp (u)");
        stays(&read(&layout), elsewhere);
    }
    stays(&read("e = Exp (t)"), elsewhere);
}

#[test]
fn padded_prompts_count_their_tokens() {
    let padded = APPENDED.replace("[1,2,6,8] b)", "[1,2,6,8] b, int64[1,8] attention_mask)");
    let assumed = |text: &str| {
        let (graph, _) = recognized_in(text, grouped(), |graph| {
            graph.assumptions = [Assumption::PaddedPrompts].into_iter().collect();
        });
        onnx::text::print(&graph)
    };
    let text = assumed(&padded);
    assert!(text.contains("ReduceSum") && text.contains("GroupQueryAttention"), "{text}");
    // Batches of several examples repeat the number of tokens.
    let text = assumed(&APPENDED.replace("[1,2,", "[3,2,"));
    assert!(text.contains("Expand") && text.contains("GroupQueryAttention"), "{text}");
    assert!(!assumed(APPENDED).contains("Expand"));
}
