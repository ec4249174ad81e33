use onnx::text::print;
use provenance::Origins;
use tensor::DType;

use super::{Format, Weights, shrink};
use crate::Target;
use crate::recognize::{Form, Forms};
use crate::testing::graph;

const INT4: Format = Format::Blocks { dtype: DType::I4, size: 16 };
const UINT8: Format = Format::Blocks { dtype: DType::U8, size: 16 };
const HALF: Format = Format::Float(DType::F16);

/// Returns the lines of the graph after its head, or the error.
fn shrunk(text: &str, formats: &[(&str, Format)]) -> Result<String, String> {
    let formats = formats.iter().map(|(pattern, format)| ((*pattern).to_owned(), vec![*format]));
    shrunk_to(text, &Weights { formats: formats.collect(), for_others: false })
}

fn shrunk_to(text: &str, weights: &Weights) -> Result<String, String> {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    shrink(&mut graph, &mut origins, weights, 23, &Forms::auto(23))
        .map_err(|error| error.to_string())?;
    onnx::verify(&graph, None).unwrap();
    let text = print(&graph);
    let body = text.split_once("{\n").map_or("", |(_, body)| body);
    Ok(body.lines().map(|line| line.trim().to_owned() + "\n").collect())
}

fn ones(count: usize) -> String {
    vec!["1"; count].join(", ")
}

fn product(op: &str) -> String {
    format!(
        "g (float[2,32] x) => (float[2,32] y) <float[32,32] w = {{{}}}> {{ y = {op} (x, w) }}",
        ones(1024)
    )
}

#[test]
fn a_matrix_becomes_integers_beside_its_product() {
    for op in ["MatMul", "Gemm"] {
        let text = shrunk(&product(op), &[("w", INT4)]).unwrap();
        assert!(text.contains("Cast <to: int = 1> (\"w/scale\")"), "{text}");
        assert!(
            text.contains("DequantizeLinear <axis: int = 0, block_size: int = 16> (w, "),
            "{text}"
        );
    }
    let text = shrunk(&product("MatMul"), &[("*", UINT8)]).unwrap();
    assert!(text.contains("\"w/zero_point\")"), "{text}");
}

#[test]
fn floats_are_cast() {
    let text = shrunk(&product("MatMul"), &[("*", HALF)]).unwrap();
    assert!(text.contains("Cast <to: int = 1> (w)"), "{text}");
}

#[test]
fn only_the_gathered_rows_of_a_table_are_cast() {
    let text = format!(
        "g (int64[B] i) => (float[B,32] y) <float[32,32] w = {{{}}}> {{ y = Gather (w, i) }}",
        ones(1024)
    );
    let halves = shrunk(&text, &[("*", HALF)]).unwrap();
    let (gather, cast) = (halves.find("Gather").unwrap(), halves.find("Cast").unwrap());
    assert!(gather < cast, "{halves}");
    assert!(!shrunk(&text, &[("*", INT4)]).unwrap().contains("Dequantize"));
    // On request, their integers are gathered as bytes.
    let integers = shrunk(&text, &[("w", INT4)]).unwrap();
    assert!(integers.contains("Gather <axis: int = 0> (w, i)  # uint8[B,16]"), "{integers}");
    assert!(integers.contains("axis: int = -1, block_size: int = 16"), "{integers}");
    let bytes = shrunk(&text, &[("w", UINT8)]).unwrap();
    assert!(bytes.contains("Gather <axis: int = 0> (w, i)  # uint8[B,32]"), "{bytes}");
    assert!(!bytes.contains("BitShift"), "{bytes}");
}

#[test]
fn a_tied_embedding_is_stored_once() {
    let text = format!(
        "g (int64[B] i) => (float[B,32] y) <float[32,32] w = {{{}}}> {{
            x = Gather (w, i) t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t)
        }}",
        ones(1024)
    );
    for format in [INT4, UINT8] {
        let text = shrunk(&text, &[("*", format)]).unwrap();
        assert_eq!(text.matches("DequantizeLinear").count(), 2, "{text}");
        assert_eq!(text.matches("Gather <axis: int = 0> (w, i)").count(), 1, "{text}");
    }
    // The columns of `x @ w` have blocks of their own.
    let text =
        text.replace("t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t)", "y = MatMul (x, w)");
    assert_eq!(
        shrunk(&text, &[("w", INT4)]).unwrap_err(),
        "`w` cannot be stored as int4 in blocks of 16: its rows are looked up, and a product reads its \
         columns"
    );
}

#[test]
fn the_report_names_every_parameter() {
    let mut origins = Origins::default();
    let text = format!(
        "g (int64[B] i) => (float[B,32] y)
         <float[32,32] table = {{{0}}}, float[32,32] w = {{{0}}}, float[32] b = {{{1}}}> {{
            x = Gather (table, i) z = MatMul (x, w) y = Add (z, b)
        }}",
        ones(1024),
        ones(32)
    );
    let mut graph = graph(&text, &mut origins);
    let found =
        shrink(&mut graph, &mut origins, &weights("*=int4:16", false), 23, &Forms::auto(23))
            .unwrap();
    let rows: Vec<_> = found.weights.iter().map(|w| (&*w.name, w.stored, &*w.reason)).collect();
    assert_eq!(
        rows,
        [
            ("table", 4096, "its rows are looked up; name it to store it like that"),
            ("w", 640, ""),
            ("b", 128, "it is small"),
        ]
    );
    assert!(found.unmatched.is_empty());
}

#[test]
fn patterns_without_effect_are_reported() {
    let mut origins = Origins::default();
    let text = "g (float[2] x) => (float[2] y) <float[2] b = {1, 2}> { y = Add (x, b) }";
    let mut graph = graph(text, &mut origins);
    let found =
        shrink(&mut graph, &mut origins, &weights("*=int4:16", false), 23, &Forms::auto(23));
    assert_eq!(found.unwrap().unmatched, ["*"]);
}

#[test]
fn the_first_pattern_decides() {
    let text = shrunk(&product("MatMul"), &[("w*", Format::Keep), ("*", INT4)]).unwrap();
    assert!(!text.contains("Dequantize"), "{text}");
    assert_eq!(
        shrunk(&product("MatMul"), &[("v", INT4)]).unwrap_err(),
        "`weights` names `v`, which matches no parameter"
    );
}

#[test]
fn a_pattern_without_a_match_lists_the_largest_weights() {
    let mut origins = Origins::default();
    let text = "g (float[2] x) => (float[2] y) <
            float[2] small = {1, 2}, float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] other = {3, 4}
        > { a = Add (x, small) b = Add (a, other) c = MatMul (w, b) y = Slice (c, s, e) }";
    let text = text.replace(
        "y = Slice",
        "s = Constant <value_ints = [0]> () e = Constant <value_ints = [2]> () y = Slice",
    );
    let mut graph = graph(&text, &mut origins);
    let weights = Weights { formats: vec![("v".to_owned(), vec![INT4])], for_others: false };
    let error = shrink(&mut graph, &mut origins, &weights, 23, &Forms::auto(23)).unwrap_err();
    let super::Error::NoMatch { largest, .. } = error else { panic!("{error}") };
    assert_eq!(largest, ["w", "other", "small"]);
}

#[test]
fn small_weights_and_vectors_are_unchanged_unless_named() {
    let vector = format!(
        "g (float[2048] x) => (float[2048] y) <float[2048] w = {{{}}}> {{ y = Add (x, w) }}",
        ones(2048)
    );
    let matrix =
        "g (float[2] x) => (float[2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul (x, w) }";
    for text in [&vector, matrix] {
        assert!(!shrunk(text, &[("*", HALF)]).unwrap().contains("Cast"), "{text}");
        assert!(shrunk(text, &[("w", HALF)]).unwrap().contains("Cast"), "{text}");
    }
    assert_eq!(
        shrunk(&vector, &[("w", INT4)]).unwrap_err(),
        "`w` cannot be stored as int4 in blocks of 16: its rank is 1, and only matrices and stacks of \
         them are quantised"
    );
}

#[test]
fn the_layers_of_a_stack_have_separate_blocks() {
    let stack = |rows: usize| {
        format!(
            "g (float[2,{rows}] x, int64 i) => (float[2,32] y) <float[3,{rows},32] w = {{{}}}> {{
                one = Gather (w, i)
                y = MatMul (x, one)
            }}",
            ones(3 * rows * 32)
        )
    };
    let text = shrunk(&stack(32), &[("*", INT4)]).unwrap();
    assert!(text.contains("DequantizeLinear <axis: int = 1, block_size: int = 16> (w, "), "{text}");
    assert!(text.contains("(\"w/scale\")  # float[3,2,32]"), "{text}");
    assert_eq!(
        shrunk(&stack(24), &[("w", INT4)]).unwrap_err(),
        "`w` cannot be stored as int4 in blocks of 16: it is a stack of matrices whose 24 rows are not \
         a multiple of the block size"
    );
}

#[test]
fn a_weight_that_is_cast_to_two_types_is_not_quantised() {
    let text = format!(
        "g (float[2,32] x, float16[2,32] h) => (float[2,32] y, float16[2,32] z)
            <bfloat16[32,32] w = {{{}}}> {{
            c = Cast <to = 1> (w) d = Cast <to = 10> (w)
            y = MatMul (x, c) z = MatMul (h, d)
        }}",
        ones(1024)
    );
    assert_eq!(
        shrunk(&text, &[("w", INT4)]).unwrap_err(),
        "`w` cannot be stored as int4 in blocks of 16: products read it as bfloat16"
    );
}

#[test]
fn casts_of_a_half_precision_weight_are_part_of_it() {
    let text = format!(
        "g (float[2,32] x) => (float[2,32] y) <bfloat16[32,32] w = {{{}}}> {{
            c = Cast <to = 1> (w)
            y = MatMul (x, c)
        }}",
        vec!["16256"; 1024].join(", ") // the bits of 1
    );
    let text = shrunk(&text, &[("*", INT4)]).unwrap();
    assert_eq!(text.matches("Cast").count(), 1, "{text}");
    assert!(text.contains("DequantizeLinear"), "{text}");
}

#[test]
fn weights_in_bodies_are_widened_outside() {
    let text = format!(
        "g (bool c, float[2,32] x) => (float[2,32] y) <float[32,32] w = {{{}}}> {{
            y = If (c) <
                then_branch = yes () => (float[2,32] a) {{ a = MatMul (x, w) }},
                else_branch = no () => (float[2,32] b) {{ b = Identity (x) }}
            >
        }}",
        ones(1024)
    );
    let text = shrunk(&text, &[("*", INT4)]).unwrap();
    assert!(text.find("DequantizeLinear").unwrap() < text.find("If").unwrap(), "{text}");
}

#[test]
fn formats_have_names() {
    for text in ["keep", "float16", "bfloat16", "int4:32", "uint8:128", "int8", "int8:column"] {
        assert_eq!(Format::parse(text).unwrap().to_text(), text);
    }
    assert_eq!(Format::parse("int4").unwrap().to_text(), "int4:32");
    for text in ["float32", "int4:24", "int4:8", "float16:32", "int2", "keep:16", "int4:column", ""]
    {
        assert_eq!(Format::parse(text), None, "{text}");
    }
    let weights = Weights::parse("a=b.*=int4:64\n*=keep").unwrap();
    assert_eq!(weights.to_text().unwrap(), "a=b.*=int4:64\n*=keep");
}

fn weights(text: &str, for_others: bool) -> Weights {
    Weights { for_others, ..Weights::parse(text).unwrap() }
}

#[test]
fn the_first_suitable_format_is_used() {
    let table = format!(
        "g (int64[B] i, float[2,32] x) => (float[B,32] y, float[2,32] z)
         <float[32,32] w = {{{0}}}, float[32,32] v = {{{0}}}> {{ y = Gather (w, i) z = MatMul (x, v) }}",
        ones(1024)
    );
    let text = shrunk_to(&table, &weights("*=int4:32,float16", false)).unwrap();
    assert!(text.contains("Gather (w, i)  # float16"), "{text}");
    assert!(text.contains("block_size: int = 32> (v, "), "{text}");
    assert_eq!(weights("*=int4:32,float16", false).to_text().unwrap(), "*=int4:32,float16");
    let error = shrunk_to(&table, &weights("w=int4:64,uint8:64", false)).unwrap_err();
    assert!(error.starts_with("`w` cannot be stored as int4 in blocks of 64"), "{error}");
}

#[test]
fn whole_blocks_are_preferred() {
    let block_size = |formats: &str| {
        let text = shrunk_to(&product("MatMul"), &weights(&format!("w={formats}"), false)).unwrap();
        let (_, rest) = text.split_once("block_size: int = ").unwrap();
        rest.split('>').next().unwrap().to_owned()
    };
    assert_eq!(block_size("int4:64,int4:32"), "32");
    assert_eq!(block_size("int4:16,int4:32"), "16");
    // Other formats are not the same with smaller blocks.
    assert_eq!(block_size("int4:64,uint4:32"), "64");
    assert_eq!(block_size("int4:64,int4:128"), "64");
}

#[test]
fn a_pattern_may_refer_to_other_models() {
    let text = product("MatMul");
    assert!(shrunk_to(&text, &weights("v=int4:32", false)).is_err());
    assert!(shrunk_to(&text, &weights("v=int4:32", true)).is_ok());
}

/// Returns a product with integers that are widened as `shape` and multiplied by scales of `scale`.
fn integers(widen: &str, shape: &str, scale: &str, scales: usize) -> String {
    format!(
        "g (float[2,32] x) => (float[2,4] y)
         <int8{shape} w = {{{}}}, float{scale} s = {{{}}}, int64[2] m = {{32, 4}}>
         {{ c = Cast <to: int = 1> (w) {widen} y = MatMul (x, d) }}",
        ones(128),
        ones(scales)
    )
}

#[test]
fn integers_are_unchanged() {
    let plain = "d = Mul (c, s)";
    for (scale, count) in [("[4]", 4), ("[1,4]", 4), ("[1]", 1)] {
        let text = shrunk_to(&integers(plain, "[32,4]", scale, count), &weights("*=int4", false));
        let text = text.unwrap();
        assert!(text.contains("block_size: int = 128> (w, s)"), "{text}");
        assert!(!text.contains("Mul (c"), "{text}");
    }
    let blocks = "b = Mul (s, c) d = Reshape (b, m)";
    let text = shrunk_to(&integers(blocks, "[2,16,4]", "[2,1,4]", 8), &weights("w=int8", false));
    assert!(text.clone().unwrap().contains("block_size: int = 16> (w, s)"), "{text:?}");
    // A scale per row does not apply to blocks of columns.
    let rows = shrunk_to(&integers(plain, "[32,4]", "[32,1]", 32), &weights("w=int4", false));
    let expected = "`w` cannot be stored as int4 in blocks of 32: its scales are not those of columns or blocks of them";
    assert_eq!(rows.unwrap_err(), expected);
}

/// `DequantizeLinear` computes neither differences that wrap around nor numbers that a cast
/// changes.
#[test]
fn integers_that_change_are_not_widened() {
    let with = |body: &str| {
        let text = format!(
            "g (float[2,32] x) => (float[2,4] y, float[4] t, int32[4] u)
             <uint8[32,4] w = {{{}}}, float[4] s = {{1, 2, 3, 0.1}}, int32[4] z = {{1, 2, 3, 4}}> {{
                one = Constant <value = float {{1}}> () two = Constant <value = int32 {{1}}> ()
                {body} y = MatMul (x, d) t = Add (s, one) u = Add (z, two) }}",
            ones(128)
        );
        shrunk_to(&text, &weights("w=int8", false))
    };
    let text = with(
        "a = Cast <to: int = 5> (w) b = Cast <to: int = 5> (z) c = Sub (a, b)
        e = Cast <to: int = 1> (c) d = Mul (e, s)",
    );
    assert!(text.clone().unwrap().contains("DequantizeLinear"), "{text:?}");
    for body in [
        // Through unsigned integers.
        "a = Cast <to: int = 4> (w) b = Cast <to: int = 4> (z) c = Sub (a, b)
         e = Cast <to: int = 1> (c) d = Mul (e, s)",
        "a = Cast <to: int = 5> (w) v = Cast <to: int = 3> (z) b = Cast <to: int = 5> (v)
         c = Sub (a, b) e = Cast <to: int = 1> (c) d = Mul (e, s)",
        // Scales that are rounded.
        "a = Cast <to: int = 1> (w) h = Cast <to: int = 10> (s) r = Cast <to: int = 1> (h)
         d = Mul (a, r)",
    ] {
        assert!(with(body).is_err(), "{body}");
    }
}

#[test]
fn scales_suit_the_magnitude_of_the_weight() {
    let report = |element: &str| {
        let text = product("MatMul").replacen("{1, ", &format!("{{{element}, "), 1);
        let text = text.replace(", 1", if element == "1e-8" { ", 1e-9" } else { ", 1" });
        let mut origins = Origins::default();
        let mut graph = graph(&text, &mut origins);
        let found =
            shrink(&mut graph, &mut origins, &weights("*=int4:16", false), 23, &Forms::auto(23))
                .unwrap();
        let weight = &found.weights[0];
        (weight.stored, weight.reason.clone(), print(&graph).contains("Cast"))
    };
    // Half floats are cast, and full ones are not.
    assert_eq!(report("2"), (640, String::new(), true));
    assert_eq!(report("1e-8"), (768, String::new(), false));
    assert_eq!(report("1e9"), (768, String::new(), false));
    for bad in ["nan", "inf"] {
        assert_eq!(report(bad), (4096, "it holds NaN or infinity".to_owned(), false));
    }
}

#[test]
fn contributed_operators_read_the_integers() {
    let native = |ops: &[&str]| {
        let named = ops.iter().map(|op| ((*op).to_owned(), Form::Native)).collect();
        Forms { named, ..Forms::auto(23) }
    };
    let both = native(&["MatMulNBits", "GatherBlockQuantized"]);
    let stored = |text: &str, forms: &Forms| {
        let mut origins = Origins::default();
        let mut graph = graph(text, &mut origins);
        shrink(&mut graph, &mut origins, &weights("*=int4:16", false), 23, forms).unwrap();
        onnx::verify(&graph, None).unwrap();
        print(&graph)
    };
    let text = stored(&product("MatMul"), &both);
    let node = "com.microsoft.MatMulNBits <K: int = 32, N: int = 32, accuracy_level: int = 4, bits: \
                int = 4, block_size: int = 16> (x, w, ";
    assert!(text.contains(node) && !text.contains("Dequantize"), "{text}");
    let mut targets = Target::all().filter(|target| !target.contrib.is_empty());
    let target = targets.find(|target| !target.rounds_operands).unwrap();
    let text = stored(&product("MatMul"), &Forms { target, ..both.clone() });
    assert!(text.contains("MatMulNBits <K: int = 32, N: int = 32, bits: int = 4"), "{text}");
    let tied = format!(
        "g (int64[B] i) => (float[B,32] y) <float[32,32] w = {{{}}}> {{
            x = Gather (w, i) t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t)
        }}",
        ones(1024)
    );
    let text = stored(&tied, &both);
    assert!(text.contains("MatMulNBits") && text.contains("GatherBlockQuantized"), "{text}");
    assert!(!text.contains("Transpose") && !text.contains(" Gather "), "{text}");
    // Both operators or none of them read a tied embedding.
    let text = stored(&tied, &native(&["MatMulNBits"]));
    assert!(!text.contains("com.microsoft"), "{text}");
    // A product with the columns of a table, or of another rank.
    let other = tied.replace("MatMul (x, t)", "MatMul (t, x)").replace("[B]", "[32]");
    let other = other.replace("[B,32]", "[32,32]");
    assert!(!stored(&other, &both).contains("com.microsoft"), "{other}");
    assert!(!stored(&product("Gemm"), &both).contains("com.microsoft"));
}

#[test]
fn a_stack_of_one_matrix_is_stored_as_a_matrix() {
    let text = |x: &str, y: &str| {
        format!(
            "g (float[{x}] x) => (float[{y}] y) <float[1,48,32] w = {{{}}}> {{ y = MatMul (x, w) }}",
            ones(48 * 32)
        )
    };
    let columns = Format::Columns { dtype: DType::I8 };
    for format in [Format::Blocks { dtype: DType::I8, size: 32 }, columns] {
        let text = shrunk(&text("2,3,48", "2,3,32"), &[("w", format)]).unwrap();
        assert!(text.contains("DequantizeLinear"), "{text}");
    }
    // The stack gives the result its rank.
    assert!(shrunk(&text("3,48", "1,3,32"), &[("w", columns)]).is_err());
    let native = [("MatMulNBits".to_owned(), Form::Native)].into();
    let forms = Forms { named: native, ..Forms::auto(23) };
    let mut origins = Origins::default();
    let mut graph = graph(&text("2,3,48", "2,3,32"), &mut origins);
    shrink(&mut graph, &mut origins, &weights("*=int4:16", false), 23, &forms).unwrap();
    onnx::verify(&graph, None).unwrap();
    assert!(print(&graph).contains("MatMulNBits"), "{}", print(&graph));
}

/// Returns the error for integers that no `DequantizeLinear` can widen.
fn not_scaled() -> String {
    "`w` cannot be stored as int8 in blocks of 32: it holds integers, and products do not read them times a scale"
        .to_owned()
}

#[test]
fn scales_may_be_repeated_for_each_row_of_a_block() {
    let repeated = |shape: &str, count: usize, first: &str, expanded: &str| {
        let body = format!(
            "axes = Constant <value_ints = [1]> () front = Constant <value_ints = [0]> ()
             apart = Constant <value_ints = [2, 1, 4]> () to = Constant <value_ints = [{expanded}]> ()
             u = {first} e = Expand (u, to) r = Reshape (e, m) d = Mul (c, r)"
        );
        shrunk_to(&integers(&body, "[32,4]", shape, count), &weights("w=int8", false))
    };
    for first in ["Unsqueeze (s, axes)", "Reshape (s, apart)"] {
        let text = repeated("[2,4]", 8, first, "2, 16, 4").unwrap();
        assert!(text.contains("block_size: int = 16> (w, s)"), "{text}");
        assert!(!text.contains("Expand"), "{text}");
    }
    for (shape, count, first, expanded) in [
        // All blocks in turn, which are not blocks of neighbours.
        ("[2,4]", 8, "Unsqueeze (s, front)", "16, 2, 4"),
        // One scale for each column, repeated for two blocks.
        ("[1,4]", 4, "Unsqueeze (s, axes)", "2, 16, 4"),
        // Scales in another order.
        ("[8]", 8, "Reshape (s, apart)", "2, 16, 4"),
        ("[4,2]", 8, "Reshape (s, apart)", "2, 16, 4"),
    ] {
        let error = repeated(shape, count, first, expanded).unwrap_err();
        assert!(error.ends_with("blocks of 32: its scales are computed"), "{error}");
    }
}

#[test]
fn integers_that_are_widened_in_other_ways_are_not_quantised() {
    let with = |body: &str| {
        let text = format!(
            "g (float[2,32] x) => (float[2,4] y)
             <uint8[32,4] w = {{{}}}, float[4] s = {{1, 2, 3, 0.1}}> {{
                k = Constant <value = uint8[4] {{1, 2, 3, 4}}> ()
                l = Constant <value = int32[4] {{1, 2, 3, 4}}> ()
                t = Constant <value = double[4] {{1, 2, 3, 4}}> ()
                {body} y = MatMul (x, d) }}",
            ones(128)
        );
        shrunk_to(&text, &weights("w=int8", false))
    };
    for body in [
        // A cast that wraps around.
        "a = Cast <to: int = 3> (w) c = Cast <to: int = 1> (a) d = Mul (c, s)",
        // A difference that wraps around.
        "a = Sub (w, k) c = Cast <to: int = 1> (a) d = Mul (c, s)",
        // Two zero points.
        "a = Cast <to: int = 6> (w) b = Sub (a, l) f = Sub (b, l) c = Cast <to: int = 1> (f) d = Mul (c, s)",
        // A difference in the other direction.
        "a = Cast <to: int = 6> (w) b = Sub (l, a) c = Cast <to: int = 1> (b) d = Mul (c, s)",
        // A product in double precision.
        "a = Cast <to: int = 11> (w) b = Mul (a, t) d = Cast <to: int = 1> (b)",
    ] {
        assert_eq!(with(body).unwrap_err(), not_scaled(), "{body}");
    }
    let whole =
        "a = Cast <to: int = 6> (w) b = Sub (a, l) c = Cast <to: int = 1> (b) d = Mul (s, c)";
    assert!(with(whole).unwrap().contains("DequantizeLinear"));
}

#[test]
fn integers_in_blocks_of_other_rows_are_not_quantised() {
    let text = format!(
        "g (float[2,8] x) => (float[2,16] y)
         <int8[2,16,4] w = {{{}}}, float[2,1,4] s = {{{}}}, int64[2] m = {{8, 16}}> {{
            c = Cast <to: int = 1> (w) b = Mul (c, s) d = Reshape (b, m) y = MatMul (x, d) }}",
        ones(128),
        ones(8)
    );
    let expected =
        "`w` cannot be stored as int8 in blocks of 32: its axes are not those of blocks of columns";
    assert_eq!(shrunk_to(&text, &weights("w=int8", false)).unwrap_err(), expected);
}

/// Returns a model with a stack of three matrices.
fn stack(inputs: &str, results: &str, body: &str) -> String {
    format!("g ({inputs}) => ({results}) <float[3,32,32] w = {{{}}}> {{ {body} }}", ones(3 * 1024))
}

#[test]
fn matrices_that_a_scan_reads_are_quantised() {
    let scan = |axes: &str| {
        let body = format!(
            "y = Scan <num_scan_inputs = 1{axes}, body = b (float[2,32] h, float[32,32] one) => (float[2,32] n) {{
                n = MatMul (h, one) }}> (x, w)"
        );
        stack("float[2,32] x", "float[2,32] y", &body)
            .replace("[3,32,32]", "[32,32,32]")
            .replace(&ones(3072), &ones(32768))
    };
    let text = shrunk(&scan(""), &[("w", INT4)]).unwrap();
    assert!(text.contains("DequantizeLinear <axis: int = 1"), "{text}");
    assert!(shrunk(&scan(", scan_input_axes = [0]"), &[("w", INT4)]).is_ok());
    let error = shrunk(&scan(", scan_input_axes = [1]"), &[("w", INT4)]).unwrap_err();
    assert!(error.ends_with("`Scan` reads it, which is not a product with a matrix"), "{error}");
}

#[test]
fn only_products_read_quantised_matrices_of_a_stack() {
    let of = |body: &str| {
        shrunk(&stack("float[32,32] x, int64 i", "float[32,32] y", body), &[("w", INT4)])
    };
    assert!(of("d = Gather (w, i) y = MatMul (x, d)").is_ok());
    for (op, body) in [
        ("Add", "d = Gather (w, i) y = Add (x, d)"),
        ("MatMul", "d = Gather (w, i) y = MatMul (d, x)"),
        ("Gemm", "d = Gather (w, i) y = Gemm <transB = 1> (x, d)"),
        ("Add", "d = Gather (w, i) t = Transpose <perm = [1, 0]> (d) y = Add (x, t)"),
    ] {
        let error = of(body).unwrap_err();
        let expected = format!("`{op}` reads it, which is not a product with a matrix");
        assert!(error.ends_with(&expected), "{body}: {error}");
    }
    assert!(of("d = Gather (w, i) y = Gemm (x, d)").is_ok());
    assert!(of("d = Gather (w, i) t = Transpose <perm = [1, 0]> (d) y = MatMul (x, t)").is_ok());
}

#[test]
fn selected_weights_are_part_of_their_products() {
    let of = |inputs: &str, body: &str| {
        let text = product("MatMul").replace("float[2,32] x", &format!("float[2,32] x, {inputs}"));
        shrunk(&text.replace("y = MatMul (x, w)", body), &[("w", INT4)])
    };
    let inputs = "bool[32,32] c, float[32,32] n";
    assert!(of(inputs, "d = Where (c, w, n) y = MatMul (x, d)").unwrap().contains("Dequantize"));
    assert!(of(inputs, "d = Where (c, n, w) y = MatMul (x, d)").unwrap().contains("Dequantize"));
    assert!(of(inputs, "d = Where (c, w, n) e = Exp (d) y = MatMul (x, e)").is_err());
}

#[test]
fn the_experts_of_a_mixture_are_widened_where_they_are_chosen() {
    let of = |body: &str| {
        shrunk(&stack("float[2,1,32] x, int64[2] i", "float[2,1,32] y", body), &[("w", INT4)])
    };
    let transposed = "t = Transpose <perm = [0, 2, 1]> (w) d = Gather (t, i) y = MatMul (x, d)";
    assert!(of(transposed).unwrap().contains("DequantizeLinear"));
    let added =
        "t = Transpose <perm = [0, 2, 1]> (w) d = Gather (t, i) e = Add (d, d) y = MatMul (x, e)";
    let error = of(added).unwrap_err();
    assert!(error.contains("`Add` reads it"), "{error}");
}

#[test]
fn weights_of_functions_are_read_by_the_products_inside() {
    let call = |body: &str| {
        format!(
            "g (float[2,32] x) => (float[2,32] y) <float[32,32] w = {{{}}}> {{ y = local.f (x, w) }}
             <domain: \"local\"> f (float[2,32] p, float[32,32] v) => (float[2,32] q) {{ {body} }}
             <domain: \"local\"> h (float[2,32] p, float[32,32] v) => (float[2,32] q) {{ q = Sin (p) }}",
            ones(1024)
        )
    };
    assert!(shrunk(&call("q = MatMul (p, v)"), &[("w", INT4)]).unwrap().contains("Dequantize"));
    let error = shrunk(&call("t = Exp (v) q = MatMul (p, t)"), &[("w", INT4)]).unwrap_err();
    assert!(error.ends_with("`Exp` reads it, which is not a product with a matrix"), "{error}");
}

#[test]
fn the_report_tells_how_tables_are_read() {
    let native = ["MatMulNBits", "GatherBlockQuantized"].map(|op| (op.to_owned(), Form::Native));
    let contributed = Forms { named: native.into(), ..Forms::auto(23) };
    let lookup = "x = Gather (w, i) y = Sin (x)";
    let both = "x = Gather (w, i) t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t)";
    let columns =
        "k = Gather <axis = 1> (w, i) t = Transpose <perm = [1, 0]> (k) y = MatMul (t, w)";
    let report = |body: &str, forms: &Forms| {
        let text = format!(
            "g (int64[B] i) => (float[B,32] y) <float[32,32] w = {{{}}}> {{ {body} }}",
            ones(1024)
        );
        let mut origins = Origins::default();
        let mut graph = graph(&text, &mut origins);
        let found = shrink(&mut graph, &mut origins, &weights("w=int4:16", false), 23, forms);
        found.map(|found| found.weights[0].reason.clone()).map_err(|error| error.to_string())
    };
    for forms in [&contributed, &Forms::auto(23)] {
        assert_eq!(report(lookup, forms).unwrap(), "looked up");
        assert_eq!(report(both, forms).unwrap(), "looked up, and read by a product");
        assert!(report(columns, forms).is_err());
    }
    let product = product("MatMul");
    let mut origins = Origins::default();
    let mut graph = graph(&product, &mut origins);
    let found = shrink(&mut graph, &mut origins, &weights("w=int4:16", false), 23, &contributed);
    assert_eq!(found.unwrap().weights[0].reason, "");
}

#[test]
fn contributed_operators_need_whole_blocks_of_four_bits() {
    let named = [("MatMulNBits".to_owned(), Form::Native)].into();
    let forms = Forms { named, ..Forms::auto(23) };
    let is_contributed = |rows: usize, formats: &str, body: &str| {
        let text = format!(
            "g (float[2,{rows}] x) => (float[2,32] y) <float[{rows},32] w = {{{}}}> {{ {body} }}",
            ones(rows * 32)
        );
        let mut origins = Origins::default();
        let mut graph = graph(&text, &mut origins);
        shrink(&mut graph, &mut origins, &weights(formats, false), 23, &forms).unwrap();
        print(&graph).contains("com.microsoft")
    };
    let product = "y = MatMul (x, w)";
    assert!(is_contributed(32, "w=int4:16", product));
    assert!(!is_contributed(24, "w=int4:16", product));
    assert!(!is_contributed(32, "w=int8:16", product));
}

#[test]
fn transposed_tables_are_read_by_products_only() {
    let of = |body: &str| {
        let text = format!(
            "g (int64[32] i) => (float[32,32] y) <float[32,32] w = {{{}}}> {{ x = Gather (w, i) {body} }}",
            ones(1024)
        );
        shrunk(&text, &[("*", INT4)]).unwrap().contains("DequantizeLinear")
    };
    assert!(of("t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t)"));
    assert!(of(
        "h = Transpose <perm = [1, 0]> (w) t = Cast <to = 10> (h) p = Cast <to = 10> (x) q = MatMul (p, t) y = Cast <to = 1> (q)"
    ));
    assert!(of(
        "h = Cast <to = 10> (w) t = Transpose <perm = [1, 0]> (h) p = Cast <to = 10> (x) q = MatMul (p, t) y = Cast <to = 1> (q)"
    ));
    assert!(!of("t = Transpose <perm = [0, 1]> (w) y = MatMul (x, t)"));
    assert!(!of("t = Transpose <perm = [1, 0]> (w) y = Add (x, t)"));
    assert!(!of("t = Transpose <perm = [1, 0]> (w) y = MatMul (t, x)"));
    assert!(!of("t = Transpose <perm = [1, 0]> (w) y = Gemm <transB = 1> (x, t)"));
    assert!(!of(
        "h = Transpose <perm = [1, 0]> (w) t = Cast <to = 11> (h) p = Cast <to = 11> (x) q = MatMul (p, t) y = Cast <to = 1> (q)"
    ));
}

#[test]
fn weights_with_formats_of_integers_need_their_opset() {
    let at = |formats: &str, opset| {
        let mut origins = Origins::default();
        let mut graph = graph(&product("MatMul"), &mut origins);
        let found =
            shrink(&mut graph, &mut origins, &weights(formats, false), opset, &Forms::auto(opset));
        found.map(|_| print(&graph)).map_err(|error| error.to_string())
    };
    assert!(at("w=int4", 21).is_ok());
    assert!(at("w=int4", 20).unwrap_err().contains("need opset 21 or newer"));
    // Columns of 8 bits do not need blocks.
    assert!(at("w=int8", 21).unwrap().contains("block_size"));
    assert!(!at("w=int8", 20).unwrap().contains("block_size"));
    assert!(
        weights("w=int8", false).has_integers() && !weights("w=float16,keep", false).has_integers()
    );
}

#[test]
fn weights_that_are_small_already_are_unchanged() {
    let text = product("MatMul").replace("float[", "float16[");
    let error = shrunk(&text, &[("w", HALF)]).unwrap_err();
    assert!(error.ends_with("it is float16 already"), "{error}");
}
