//! Rotations of queries and keys that become a part of attention over a cache.

use onnx::Graph;

use super::attention::{APPENDED, grouped};
use super::{constants, recognized};

/// Two tokens after six others: the rotation of their queries and keys.
#[derive(Clone)]
struct Rotation {
    /// The number of features of a head.
    features: usize,
    /// The nodes that compute `cos` and `sin`.
    tables: String,
    attrs: [&'static str; 2],
    /// The tables and positions that queries and keys are rotated by.
    by: [&'static str; 2],
}

/// The angles of the positions `p`, with an axis of examples.
const ANGLES: &str = "f = Cast <to = 1> (p) column = Unsqueeze (f, one)
    rows = Mul (column, frequencies) angles = Unsqueeze (rows, zero)";
const OF_ANGLES: &str = "cos = Cos (angles) sin = Sin (angles)";

/// The angles of position one.
const FREQUENCIES: [f64; 8] = [1.0, 0.5, 0.25, 0.125, 0.75, 0.0625, 0.375, 0.625];

fn numbers(numbers: impl IntoIterator<Item = f64>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}

fn by_angles(angles: &str) -> Rotation {
    let tables = format!("{angles} {OF_ANGLES}");
    Rotation { features: 16, tables, attrs: [""; 2], by: ["cos, sin"; 2] }
}

impl Rotation {
    fn text(&self) -> String {
        let Self { features, tables, attrs: [of_query, of_key], by: [query_by, key_by] } = self;
        let new = |name| format!("float[1,2,2,{features}] {name}");
        let cache = |length, name| format!("float[1,2,{length},{features}] {name}");
        format!(
            "g ({}, {}, {}, {}, {}) => ({}, {}, {}) {{
                {} p = Constant <value_ints = [6, 7]> ()
                keys = Constant <value_ints = [0, 1, 2, 3, 4, 5, 6, 7]> ()
                zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
                frequencies = Constant <value_floats = [{}]> ()
                {tables}
                q = RotaryEmbedding {of_query} (own, {query_by})
                k = RotaryEmbedding {of_key} (new, {key_by}) {APPENDED}
                queries = Unsqueeze (p, one) m = LessOrEqual (keys, queries)
                w = Transpose <perm = [0, 1, 3, 2]> (c) s = MatMul (q, w) h = Mul (s, half)
                z = Where (m, h, least) x = Softmax <axis = -1> (z) y = MatMul (x, d) }}",
            new("own"),
            new("new"),
            new("v"),
            cache(6, "a"),
            cache(6, "b"),
            new("y"),
            cache(8, "c"),
            cache(8, "d"),
            constants(&[("half", "0.5"), ("least", "-3e38")]),
            numbers(FREQUENCIES),
        )
    }

    /// Returns the attribute `rotary_interleaved` of attention and the elements of both tables, if
    /// attention rotates.
    fn found(&self) -> Option<(i64, [Vec<f64>; 2])> {
        let text = self.text();
        let (graph, report) = recognized(&text, grouped());
        let mut nodes = graph.nodes_of(Graph::MAIN).map(|id| graph.node(id));
        let attention = nodes.find(|node| node.op.name == "GroupQueryAttention");
        let attention = attention.unwrap_or_else(|| panic!("{text}\n{:?}", report.missed));
        let rotated = attention.int("do_rotary", 0) == 1;
        let is_left = graph.nodes_of(Graph::MAIN).any(|id| graph.node(id).is("RotaryEmbedding"));
        assert_eq!(rotated, !is_left, "{text}");
        let table = |index: usize| {
            let table = graph.facts().approximate(attention.input(index).unwrap(), 1 << 12);
            let table = table.unwrap_or_else(|| panic!("{text}"));
            assert_eq!(table.shape(), [8, 8], "{text}");
            table.to_f64s().unwrap()
        };
        rotated.then(|| (attention.int("rotary_interleaved", 0), [table(7), table(8)]))
    }

    /// Asserts that attention rotates by the angles of all positions from zero on.
    fn is_found(&self) {
        let (_, tables) = self.found().unwrap_or_else(|| panic!("{}", self.text()));
        for (table, function) in tables.into_iter().zip([f64::cos, f64::sin]) {
            for (i, number) in table.into_iter().enumerate() {
                let expected = function((i / 8) as f64 * FREQUENCIES[i % 8]);
                assert!((number - expected).abs() < 1e-5, "{i}: {number} {expected}");
            }
        }
    }

    fn stays(&self) {
        assert!(self.found().is_none(), "{}", self.text());
    }
}

#[test]
fn tables_are_computed_for_all_positions() {
    for angles in [
        ANGLES,
        // Operators that cancel each other.
        "column = Unsqueeze (p, one) f = Cast <to = 1> (column)
         inverse = Div (f, frequencies) once = Mul (inverse, frequencies)
         rows = Mul (frequencies, once)
         angles = Unsqueeze (rows, zero)",
        // Frequencies in a row.
        "row = Constant <value = float[1,8] {1, 0.5, 0.25, 0.125, 0.75, 0.0625, 0.375, 0.625}> ()
         f = Cast <to = 1> (p) column = Unsqueeze (f, one) rows = Mul (column, row)
         angles = Unsqueeze (rows, zero)",
        // Examples share their positions.
        "sizes = Constant <value_ints = [1, 2]> () all = Expand (p, sizes) f = Cast <to = 1> (all)
         two = Constant <value_ints = [2]> () column = Unsqueeze (f, two)
         angles = Mul (column, frequencies)",
    ] {
        by_angles(angles).is_found();
    }
}

#[test]
fn angles_of_other_positions_stay() {
    for positions in ["[5, 6]", "[7, 8]", "[6, 8]", "[7, 6]", "[6, 6]", "[0, 1]"] {
        let angles = ANGLES.replace("(p)", "(other)");
        let other = format!("other = Constant <value_ints = {positions}> ()");
        by_angles(&format!("{other} {angles}")).stays();
    }
    for angles in [
        // A number that differs between the two tokens is added.
        "f = Cast <to = 1> (p) column = Unsqueeze (f, one)
         more = Constant <value = float[2,1] {0, 1}> () sum = Add (column, more)
         rows = Mul (sum, frequencies) angles = Unsqueeze (rows, zero)",
        // Positions count along the features.
        "half_of_them = Constant <value_ints = [6, 7, 8, 9, 10, 11, 12, 13]> ()
         f = Cast <to = 1> (half_of_them) pair = Constant <value = float[2,1] {6, 7}> ()
         rows = Mul (f, pair) angles = Unsqueeze (rows, zero)",
        // Positions that are looked up.
        "numbers = Constant <value = float[8] {0, 1, 2, 3, 4, 5, 6, 7}> () f = Gather (numbers, p)
         column = Unsqueeze (f, one) rows = Mul (column, frequencies)
         angles = Unsqueeze (rows, zero)",
        // Reshapes that may mix tokens and features.
        "f = Cast <to = 1> (p) column = Unsqueeze (f, one) rows = Mul (column, frequencies)
         flat = Constant <value_ints = [16]> () all = Reshape (rows, flat)
         whole = Constant <value_ints = [1, 2, 8]> () angles = Reshape (all, whole)",
        "f = Cast <to = 1> (p) column = Unsqueeze (f, one) rows = Mul (column, frequencies)
         two = Constant <value_ints = [2]> () last = Unsqueeze (rows, two)
         squeezed = Squeeze (last, two) angles = Unsqueeze (squeezed, zero)",
        // An operator that combines features.
        "f = Cast <to = 1> (p) column = Unsqueeze (f, one) rows = Mul (column, frequencies)
         e = Softmax <axis = -1> (rows) angles = Unsqueeze (e, zero)",
    ] {
        by_angles(angles).stays();
    }
}

#[test]
fn tables_are_computed_by_few_nodes() {
    let casts = |count: usize| {
        let cast = |i: usize| format!("f{} = Cast <to = 1> (f{i}) ", i + 1);
        let casts: String = (0..count).map(cast).collect();
        by_angles(&format!(
            "column = Unsqueeze (p, one) f0 = Cast <to = 1> (column) rows = Mul (f0, frequencies) {}
             angles = Unsqueeze (f{count}, zero)",
            casts.replace("(f0)", "(rows)")
        ))
    };
    casts(12).is_found();
    casts(13).stays();
}

#[test]
fn tables_that_are_the_same_at_all_positions_stay() {
    let row = "row = Constant <value = float[1,1,8] {1, 1, 1, 1, 1, 1, 1, 1}> ()
        sizes = Constant <value_ints = [1, 2, 8]> () fixed = Expand (row, sizes)";
    for tables in ["cos = Cos (angles) sin = Sin (fixed)", "cos = Cos (fixed) sin = Sin (angles)"] {
        Rotation { tables: format!("{ANGLES} {row} {tables}"), ..by_angles("") }.stays();
    }
}

/// Returns the nodes that look up rows of stored tables.
fn looked_up(rows: usize, lookup: &str) -> Rotation {
    let table = |function: fn(f64) -> f64| {
        let angle = |i: usize| (i / 8) as f64 * FREQUENCIES[i % 8];
        numbers((0..8 * rows).map(|i| function(angle(i))))
    };
    let tables = format!(
        "cosines = Constant <value = float[{rows},8] {{{}}}> ()
        sines = Constant <value = float[{rows},8] {{{}}}> ()
        {lookup}",
        table(f64::cos),
        table(f64::sin)
    );
    Rotation { tables, ..by_angles("") }
}

#[test]
fn rows_of_stored_tables_are_taken_from_the_first() {
    let lookup = "first = Gather (cosines, p) second = Gather (sines, p)
        cos = Unsqueeze (first, zero) sin = Unsqueeze (second, zero)";
    for rows in [8, 9, 12] {
        looked_up(rows, lookup).is_found();
    }
    let others = lookup.replace(", p)", ", others)");
    looked_up(12, &format!("others = Constant <value_ints = [5, 6]> () {others}")).stays();
    // A table that is computed may be another one.
    let computed = lookup.replace("(cosines", "(more").replace("(sines", "(other");
    looked_up(8, &format!("more = Identity (cosines) other = Identity (sines) {computed}")).stays();
}

#[test]
fn rows_may_be_looked_up_in_order() {
    let ids = |ids: &str| {
        let tables = format!(
            "{} cos = Cos (rows) sin = Sin (rows) ids = Constant <value = int64[1,2] {{{ids}}}> ()",
            ANGLES.replace("angles = Unsqueeze (rows, zero)", "")
        );
        Rotation { tables, by: ["cos, sin, ids"; 2], ..by_angles("") }
    };
    ids("0, 1").is_found();
    for others in ["1, 0", "1, 1", "0, 0"] {
        ids(others).stays();
    }
}

#[test]
fn queries_and_keys_are_rotated_alike() {
    let rotation = by_angles(ANGLES);
    let interleaved = ["<interleaved = 1>"; 2];
    let (is_interleaved, _) = Rotation { attrs: interleaved, ..rotation.clone() }.found().unwrap();
    assert_eq!((rotation.found().unwrap().0, is_interleaved), (0, 1));
    for (attrs, by) in [
        (["<interleaved = 1>", ""], rotation.by),
        (["", "<rotary_embedding_dim = 16, num_heads = 2>"], rotation.by),
        ([""; 2], ["cos, sin", "sin, cos"]),
        ([""; 2], ["cos, sin", "cos, cos"]),
    ] {
        Rotation { attrs, by, ..rotation.clone() }.stays();
    }
}

#[test]
fn only_whole_vectors_of_features_are_rotated() {
    // 16 of 32 features, and 16 of 24.
    for (features, is_found) in [(32, true), (24, false)] {
        let attrs = ["<rotary_embedding_dim = 16, num_heads = 2>"; 2];
        let rotation = Rotation { features, attrs, ..by_angles(ANGLES) };
        assert_eq!(rotation.found().is_some(), is_found, "{features}");
    }
    // 8 of 16 features.
    let few = ANGLES.replace("frequencies", "few");
    let few = format!("few = Constant <value_floats = [1.0, 0.5, 0.25, 0.125]> () {few}");
    let attrs = ["<rotary_embedding_dim = 8, num_heads = 2>"; 2];
    Rotation { attrs, ..by_angles(&few) }.stays();
}
