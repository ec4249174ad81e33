//! Rotary embeddings: parts of the features, tables, and what surrounds them.

use super::{native, run};
use crate::{Form, Forms, Target};

/// Pairs of the two halves of eight features, as Flax rotates them.
const HALVES: &str =
    "g (float[2,3,2,8] x, float[2,3,1,4] cos, float[2,3,1,4] sin) => (float[2,3,2,8] y) {
    n = Constant <value_ints = [4, 4]> () a, b = Split <axis = -1> (x, n)
    ac = Mul (a, cos) bs = Mul (b, sin) first = Sub (ac, bs)
    bc = Mul (b, cos) as = Mul (a, sin) second = Add (bc, as)
    y = Concat <axis = -1> (first, second) }";

/// The same with tables for all features, of which the second half is negated and moved to the front.
fn twice(signature: &str, tables: &str) -> String {
    format!(
        "g (float[2,3,2,8] x, {signature}) => (float[2,3,2,8] y) {{
            n = Constant <value_ints = [4, 4]> () a, b = Split <axis = -1> (x, n) {tables}
            minus = Neg (b) turned = Concat <axis = -1> (minus, a)
            xc = Mul (x, cos) ts = Mul (turned, sin) y = Add (xc, ts) }}"
    )
}

/// The same with pairs of neighbours.
fn each_twice(signature: &str, tables: &str) -> String {
    format!(
        "g (float[2,3,2,8] x, {signature}) => (float[2,3,2,8] y) {{
            zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
            end = Constant <value_ints = [8]> () last = Constant <value_ints = [3]> ()
            two = Constant <value_ints = [2]> () new = Constant <value_ints = [4]> () {tables}
            a = Slice (x, zero, end, last, two) b = Slice (x, one, end, last, two)
            minus = Neg (b) first = Unsqueeze (minus, new) second = Unsqueeze (a, new)
            pairs = Concat <axis = -1> (first, second)
            shape = Constant <value_ints = [2, 3, 2, 8]> () turned = Reshape (pairs, shape)
            xc = Mul (x, cos) ts = Mul (turned, sin) y = Add (xc, ts) }}"
    )
}

fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old} in {text}");
        text.replace(old, new)
    })
}

/// Returns the attributes of the node, or the reason why there is none.
fn rotary_as(text: &str, forms: Forms) -> Result<String, String> {
    let (after, report) = run(text, forms);
    let attrs = after.split_once("RotaryEmbedding").map(|(_, rest)| rest.split(" (").next());
    let reasons: Vec<_> = report.missed.into_iter().map(|missed| missed.reason).collect();
    attrs.map(|attrs| attrs.unwrap_or_default().trim().to_owned()).ok_or(reasons.join(", "))
}

fn rotary(text: &str) -> Result<String, String> {
    rotary_as(text, native())
}

#[track_caller]
fn is_found(text: &str, attrs: &str) {
    assert_eq!(rotary(text).as_deref(), Ok(attrs), "{text}");
}

#[track_caller]
fn stays(text: &str, reason: &str) {
    let found = rotary(text);
    assert!(found.as_ref().is_err_and(|found| found.contains(reason)), "{found:?} {text}");
}

const HEADS: &str = "<num_heads: int = 2>";

#[test]
fn halves_are_turned() {
    is_found(HALVES, HEADS);
    is_found(&replaced(HALVES, &[("axis = -1> (first", "axis = 3> (first")]), HEADS);
    for changes in [
        // The halves are swapped, or one of them is used twice.
        [("(first, second)", "(second, first)")],
        [("Mul (b, ", "Mul (a, ")],
        // The other direction, and two sums.
        [("first = Sub (ac, bs)", "first = Sub (bs, ac)")],
        [("first = Sub", "first = Add")],
        // The tables differ.
        [("bs = Mul (b, sin)", "bs = Mul (b, cos)")],
        [("as = Mul (a, sin)", "as = Mul (a, cos)")],
        // Parts of other sizes.
        [(
            "n = Constant <value_ints = [4, 4]> () a, b = Split <axis = -1> (x, n)",
            "n = Constant <value_ints = [4, 4]> () m, b = Split <axis = -1> (x, n)
          i = Constant <value_ints = [1, 2, 3, 4]> () a = Gather <axis = -1> (x, i)",
        )],
    ] {
        stays(&replaced(HALVES, &changes), "");
    }
}

#[test]
fn parts_may_be_gathered() {
    let gathered = |first: &str, second: &str| {
        let nodes = format!(
            "i = Constant <value_ints = [{first}]> () j = Constant <value_ints = [{second}]> ()
            a = Gather <axis = 3> (x, i) b = Gather <axis = -1> (x, j)"
        );
        replaced(
            HALVES,
            &[("n = Constant <value_ints = [4, 4]> () a, b = Split <axis = -1> (x, n)", &nodes)],
        )
    };
    is_found(&gathered("0, 1, 2, 3", "4, 5, 6, 7"), HEADS);
    for (first, second) in [
        ("0, 1, 2, 3", "3, 4, 5, 6"),
        ("0, 1, 2, 3", "7, 6, 5, 4"),
        ("0, 0, 0, 0", "4, 4, 4, 4"),
        ("0, 1, 2, 3", "-4, -3, -2, -1"),
        ("0, 1, 3, 2", "4, 5, 7, 6"),
        ("0, 2, 4, 6", "1, 3, 5, 7"),
    ] {
        stays(&gathered(first, second), "");
    }
}

#[test]
fn operands_are_whole() {
    let broadcast = [("2,3,2,8] x", "2,3,1,8] x"), ("2,3,1,4]", "2,3,2,4]")];
    stays(&replaced(HALVES, &broadcast), "what is turned is broadcast");
    stays(&replaced(HALVES, &[("[2,3,", "[0,3,")]), "what is turned is broadcast");
    let odd = [("2,8]", "2,6]"), ("1,4]", "1,3]"), ("[4, 4]", "[3, 3]")];
    is_found(&replaced(HALVES, &odd), HEADS);
    // The tables have another type, or one of them has.
    let wide = [
        ("float[2,3,1,4] sin", "float16[2,3,1,4] small"),
        ("n =", "sin = Cast <to = 1> (small) n ="),
    ];
    is_found(&replaced(HALVES, &wide), HEADS);
}

#[test]
fn neighbours_are_turned() {
    let pairs =
        "g (float[2,3,2,8] x, float[2,3,1,4] cos, float[2,3,1,4] sin) => (float[2,3,2,8] y) {
        s = Constant <value_ints = [2, 3, 2, 4, 2]> () t = Reshape (x, s)
        n = Constant <value_ints = [1, 1]> () one, other = Split <axis = -1> (t, n)
        axis = Constant <value_ints = [4]> () a = Squeeze (one, axis) b = Squeeze (other, axis)
        ac = Mul (a, cos) bs = Mul (b, sin) f = Sub (ac, bs) first = Unsqueeze (f, axis)
        bc = Mul (b, cos) as = Mul (a, sin) g = Add (bc, as) second = Unsqueeze (g, axis)
        p = Concat <axis = -1> (first, second)
        back = Constant <value_ints = [2, 3, 2, 8]> () y = Reshape (p, back) }";
    let interleaved = "<interleaved: int = 1, num_heads: int = 2>";
    is_found(pairs, interleaved);
    // The second of a pair comes first, or pairs are two rows apart.
    stays(&replaced(pairs, &[("one, other = Split", "other, one = Split")]), "");
    let apart = [
        ("[2, 3, 2, 4, 2]", "[2, 3, 2, 2, 4]"),
        ("[1, 1]", "[2, 2]"),
        (
            "a = Squeeze (one, axis) b = Squeeze (other, axis)",
            "a = Identity (one) b = Identity (other)",
        ),
        ("[2,3,1,4]", "[2,3,1,2,2]"),
        ("first = Unsqueeze (f, axis)", "first = Identity (f)"),
        ("second = Unsqueeze (g, axis)", "second = Identity (g)"),
    ];
    assert_ne!(rotary(&replaced(pairs, &apart)).as_deref(), Ok(interleaved));
}

#[test]
fn tables_repeat_angles_of_both_features_of_a_pair() {
    let angles = "float[2,3,1,4] cosines, float[2,3,1,4] sines";
    let halves = |cos: &str| {
        twice(
            angles,
            &format!("cos = Concat <axis = -1> {cos} sin = Concat <axis = 3> (sines, sines)"),
        )
    };
    is_found(&halves("(cosines, cosines)"), HEADS);
    let reason = "the angles of the two features of a pair are not known to be the same";
    stays(&halves("(cosines, sines)"), reason);
    let whole = "float[2,3,1,8] cos, float[2,3,1,8] sin";
    stays(&twice(whole, ""), reason);
    let neighbours =
        "cos = Concat <axis = -1> (cosines, cosines) sin = Concat <axis = -1> (sines, sines)";
    stays(&each_twice(angles, neighbours), reason);
    // Functions of repeated angles.
    let function = |nodes: &str| {
        twice(
            "float[2,3,1,4] f, float[2,3,1,4] g, float[2,3,1,1] s",
            &format!(
                "r = Concat <axis = -1> (f, f) scale = Constant <value_float = 2.0> () {nodes}
                cos = Cos (angles) sin = Sin (angles)"
            ),
        )
    };
    for nodes in [
        "angles = Mul (r, s)",
        "angles = Add (scale, r)",
        "q = Concat <axis = -1> (g, g) angles = Mul (r, q)",
        "t = Constant <value_ints = [2, 3, 8]> () u = Reshape (r, t) one = Constant <value_ints = [2]> ()
         angles = Unsqueeze (u, one)",
        "m = Neg (r) i = Identity (m) angles = Cast <to = 1> (i)",
        "angles = Exp (r)",
    ] {
        is_found(&function(nodes), HEADS);
    }
    for nodes in
        ["q = Concat <axis = -1> (g, f) angles = Mul (r, q)", "angles = Softmax <axis = -1> (r)"]
    {
        stays(&function(nodes), reason);
    }
    let casts = |count: usize| {
        let cast = |i: usize| format!("f{} = Cast <to = 1> (f{i}) ", i + 1);
        let casts: String = (0..count).map(cast).collect();
        function(&format!("{} angles = Neg (f{count})", casts.replace("(f0)", "(r)")))
    };
    is_found(&casts(6), HEADS);
    stays(&casts(7), reason);
}

#[test]
fn stored_tables_repeat_numbers() {
    let stored = |numbers: &str, of_pairs: bool| {
        let tables = format!(
            "cos = Constant <value = float[1,1,1,8] {{{numbers}}}> ()
            sin = Constant <value = float[1,1,1,8] {{{numbers}}}> ()"
        );
        let write = if of_pairs { each_twice } else { twice };
        let text = write("float[1] unused", &tables).replace(", float[1] unused", "");
        rotary(&text).is_ok()
    };
    let (halves, pairs) = ("1, 2, 3, 4, 1, 2, 3, 4", "1, 1, 2, 2, 3, 3, 4, 4");
    assert_eq!([stored(halves, false), stored(pairs, false)], [true, false]);
    assert_eq!([stored(halves, true), stored(pairs, true)], [false, true]);
    assert!(!stored("1, 2, 3, 4, 1, 2, 3, 5", false) && !stored("1, 1, 2, 2, 3, 3, 4, 5", true));
}

#[test]
fn rows_of_repeated_tables_are_looked_up() {
    let looked_up = |table: &str| {
        let nodes = format!(
            "t = Constant <value = float[2,8] {{{table}}}> () two = Constant <value_ints = [2]> ()
            c = Gather (t, ids) cos = Unsqueeze (c, two) sin = Unsqueeze (c, two)"
        );
        rotary(&twice("int64[2,3] ids", &nodes)).is_ok()
    };
    assert!(looked_up("1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8"));
    assert!(!looked_up("1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8"));
    // Columns are looked up, and not rows.
    let columns = twice(
        "int64[8] ids",
        "t = Constant <value = float[2,3,1,2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> ()
        cos = Gather <axis = 3> (t, ids) sin = Gather <axis = 3> (t, ids)",
    );
    assert!(rotary(&columns).is_err());
}

#[test]
fn tables_may_be_expanded() {
    let expanded = |written: fn(&str, &str) -> String, single: &str, wide: &str| {
        written(
            "float[2,3,1,4] cosines, float[2,3,1,4] sines",
            &format!(
                "single = Constant <value_ints = [{single}]> () wide = Constant <value_ints = [{wide}]> ()
                whole = Constant <value_ints = [2, 3, 1, 8]> ()
                c = Reshape (cosines, single) cw = Expand (c, wide) cos = Reshape (cw, whole)
                s = Reshape (sines, single) sw = Expand (s, wide) sin = Reshape (sw, whole)"
            ),
        )
    };
    let (tiled, repeated) =
        (("2, 3, 1, 1, 4", "2, 3, 1, 2, 4"), ("2, 3, 1, 4, 1", "2, 3, 1, 4, 2"));
    let interleaved = "<interleaved: int = 1, num_heads: int = 2>";
    is_found(&expanded(twice, tiled.0, tiled.1), HEADS);
    is_found(&expanded(each_twice, repeated.0, repeated.1), interleaved);
    let reason = "the angles of the two features of a pair are not known to be the same";
    stays(&expanded(twice, repeated.0, repeated.1), reason);
    stays(&expanded(each_twice, tiled.0, tiled.1), reason);
    // Four copies of two angles.
    let few = |text: String| text.replace("[2,3,1,4]", "[2,3,1,2]");
    stays(&few(expanded(twice, "2, 3, 1, 1, 2", "2, 3, 1, 4, 2")), reason);
    stays(&few(expanded(each_twice, "2, 3, 1, 2, 1", "2, 3, 1, 2, 4")), reason);
}

#[test]
fn a_part_of_a_larger_rotation_stays() {
    let slice = |name: &str, from: i64, to: i64| {
        format!(
            "{name}0 = Constant <value_ints = [{from}]> () {name}1 = Constant <value_ints = [{to}]> ()
            {name} = Slice (w, {name}0, {name}1, last)"
        )
    };
    let part = |from: i64, rest: [i64; 2], concat: &str, shape: &str| {
        let slices = slice("x", from, from + 8) + " " + &slice("rest", rest[0], rest[1]);
        replaced(
            HALVES,
            &[
                ("float[2,3,2,8] x", "float[2,3,2,12] w"),
                ("=> (float[2,3,2,8] y)", &format!("=> (float[{shape}] z)")),
                ("n = C", &format!("last = Constant <value_ints = [3]> () {slices} n = C")),
                ("(first, second)", &format!("(first, second) z = {concat}")),
            ],
        )
    };
    // Once the concatenations are one, the whole becomes a node.
    stays(&part(0, [8, 12], "Concat <axis = 3> (y, rest)", "2,3,2,12"), "");
    stays(&part(0, [8, 12], "Concat <axis = -1> (y, rest)", "2,3,2,12"), "");
    // The other features come first in the operand, or another axis is concatenated.
    is_found(&part(4, [0, 4], "Concat <axis = 3> (y, rest)", "2,3,2,12"), HEADS);
    is_found(&part(0, [8, 12], "Concat <axis = 1> (y, y)", "2,6,2,8"), HEADS);
}

#[test]
fn rotations_that_are_rounded_on_purpose_stay() {
    let small = |text: &str| text.replace("float[", "bfloat16[");
    let before = |op: &str, ty: &str| {
        small(HALVES)
            .replace("bfloat16[2,3,2,8] x", &format!("{ty}[2,3,2,8] w"))
            .replace("{\n", &format!("{{ x = {op} (w)\n"))
    };
    let after = |op: &str, ty: &str| {
        small(HALVES)
            .replace("bfloat16[2,3,2,8] y", &format!("{ty}[2,3,2,8] z"))
            .replace("second) }", &format!("second) z = {op} (y) }}"))
    };
    let named = |target| {
        let named = [("RotaryEmbedding".to_owned(), Form::Native)].into();
        Forms { named, target, ..Forms::auto(onnx::schema::NEWEST) }
    };
    let found = |text: &str, target| rotary_as(text, named(target));
    let target = Target::default();
    let reason = "each step is rounded to bfloat16, and the model computes in more digits";
    for (text, is_found) in [
        (small(HALVES), true),
        (before("Cast <to = 16>", "float"), false),
        (before("Cast <to = 16>", "double"), false),
        (before("Cast <to = 16>", "float16"), true),
        (before("Abs", "bfloat16"), true),
        (after("Cast <to = 1>", "float"), false),
        (after("Cast <to = 10>", "float16"), true),
        (after("Abs", "bfloat16"), true),
    ] {
        let expected = if is_found { Ok(HEADS.to_owned()) } else { Err(reason.to_owned()) };
        assert_eq!(found(&text, target), expected, "{text}");
    }
    let moved =
        before("Transpose <perm = [0, 2, 1, 3]>", "bfloat16").replace("[2,3,2,8] w", "[2,2,3,8] v");
    let moved = moved
        .replace("bfloat16[2,2,3,8] v", "float[2,2,3,8] v")
        .replace("{ x", "{ w = Cast <to = 16> (v) x");
    assert_eq!(found(&moved, target), Err(reason.to_owned()));
    // It may be measured, and on some devices the cast after it goes.
    assert!(rotary(&before("Cast <to = 16>", "float")).is_ok());
    let once = Target::all().find(|target| target.rounds_once).unwrap();
    assert!(found(&after("Cast <to = 1>", "float"), once).is_ok());
}

#[test]
fn leading_features_are_turned() {
    let turned = |first: [i64; 2], second: [i64; 2], rest: [i64; 2]| {
        let slice = |name: &str, [from, to]: [i64; 2]| {
            format!(
                "{name}0 = Constant <value_ints = [{from}]> () {name}1 = Constant <value_ints = [{to}]> ()
                {name} = Slice (x, {name}0, {name}1, last) "
            )
        };
        let parts = slice("a", first) + &slice("b", second) + &slice("rest", rest);
        replaced(
            HALVES,
            &[
                ("float[2,3,2,8]", "float[2,3,2,12]"),
                (
                    "n = Constant <value_ints = [4, 4]> () a, b = Split <axis = -1> (x, n)",
                    &format!("last = Constant <value_ints = [3]> () {parts}"),
                ),
                ("(first, second)", "(first, second, rest)"),
            ],
        )
    };
    let (first, second, rest) = ([0, 4], [4, 8], [8, 12]);
    is_found(&turned(first, second, rest), "<num_heads: int = 2, rotary_embedding_dim: int = 8>");
    for (first, second, rest) in [
        (first, second, [7, 11]),
        (first, second, [0, 4]),
        (first, [5, 9], rest),
        ([1, 5], second, rest),
        (second, first, rest),
        (first, rest, second),
    ] {
        stays(&turned(first, second, rest), "");
    }
}

#[test]
fn a_single_position_has_its_own_axis() {
    let text = HALVES.replace("[2,3,1,4]", "[4]").replace("[2,3,2,8]", "[2,1,3,8]");
    is_found(&text, "<num_heads: int = 3>");
}
