use provenance::Origins;

use super::{parse, print, quotable};
use crate::{Graph, verify};

fn read(text: &str) -> Graph {
    match parse(text, &mut Origins::default()) {
        Ok(graph) => graph,
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn error(text: &str) -> String {
    parse(text, &mut Origins::default()).unwrap_err().to_string()
}

/// Texts that are printed exactly as written here.
const PRINTED: [&str; 4] = [
    r#"mlp (float[B,3] x, int64["4*b + 3"] n) => (float[B,4] y, float[B,4] "/out/0")
<
  float[3,4] "blocks.0.kernel" = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1e-20, -0.0, inf}
>
{
  ["/blocks.0/MatMul"] t = MatMul (x, "blocks.0.kernel")  # float[B,4]
  v0 = Constant <value_floats: floats = [0.5, 1.5, nan, -inf]> ()
  y = Add (t, v0)  # float[B,4]
  "/out/0" = Concat <axis: int = -1> (y)  # float[B,4]
}
"#,
    r#"branches (bool c, float[2] x) => (float[2] y)
{
  v0 = Constant <value: tensor = float16[2] {1.0, 0.5}> ()
  t = Cast <to: int = 1> (v0)  # float[2]
  y = If (c) <then_branch: graph = then_branch () => (float[2] a) {
    a = Add (x, t)  # float[2]
  }, else_branch: graph = else_branch () => (float[2] b) {
    b = Neg (x)  # float[2]
  }>  # float[2]
}
"#,
    r#"calls (float[2] x) => (float[2] y)
<
  int64[2] t
>
{
  s = local.twice (x)  # float[2]
  t = my.domain.Rank (s)  # int64[2]
  y = local.twice (s)  # float[2]
}

<domain: "local">
once (float[2] a) => (float[2] b)
{
  v0 = Constant <value_float: float = 2.0> ()
  b = Mul (a, v0)  # float[2]
}

<domain: "local">
twice (float[2] c) => (float[2] e)
{
  d = local.once (c)  # float[2]
  e = local.once (d)  # float[2]
}
"#,
    r#"attributes (float[1,1,4,4] x) => (float[1,1,2,2] y, float z)
{
  y = MaxPool <auto_pad: string = "NOTSET", kernel_shape: ints = [2, 2], strides: ints = [2, 2]> (x)  # float[1,1,2,2]
  s = ReduceSum <keepdims: int = 0> (x, "")  # float
  z = LeakyRelu <alpha: float = 0.25> (s)  # float
}
"#,
];

#[test]
fn text_is_printed_as_it_was_read() {
    for text in PRINTED {
        let graph = read(text);
        verify(&graph, None).unwrap();
        assert_eq!(print(&graph), text);
    }
}

#[test]
fn the_syntax_of_onnx_parser_is_accepted() {
    let graph = read(
        r#"<ir_version: 10, opset_import: ["" : 23, "local" : 1], producer_name: "p">
        # A comment.
        agraph (float[N,128] X, float W) => (float[N,128] C)
        <float[N,128] T, int64[2] S = {-1, 128},>
        {
            [first] T = Mul(X, W)
            C = Reshape<allowzero=0>(T, S)
        }"#,
    );
    let nodes = graph.all_nodes();
    assert_eq!(graph.node(nodes[0]).name, "first");
    assert_eq!(graph.node(nodes[1]).int("allowzero", 7), 0);
    assert_eq!(graph.tensor(graph.node(nodes[1]).inputs[1].unwrap()).unwrap().len(), 2);
}

#[test]
fn numbers_of_every_type_survive_the_round_trip() {
    for data in [
        "bool[2] w = {0, 1}",
        "int8[2] w = {-128, 127}",
        "uint64[1] w = {18446744073709551615}",
        "double[3] w = {0.1, 1e-300, -inf}",
        "float16[3] w = {0.5, 65504.0, inf}",
        "bfloat16[2] w = {1.5, -0.0}",
        "float8e4m3fn[2] w = {56, 255}",
        "int4[3] w = {33, 3}",
        "complex64[1] w = {1.0, -2.0}",
        "float[0,3] w = {}",
    ] {
        let ty = data.split(' ').next().unwrap();
        let text =
            format!("g () => ({ty} y)\n<\n  {data}\n>\n{{\n  y = Identity (w)  # {ty}\n}}\n");
        assert_eq!(print(&read(&text)), text);
    }
    let bits = read("g () => (float16[1] y) <float16[1] w = {15360}> { y = Identity (w) }");
    assert!(print(&bits).contains("w = {1.0}"), "an integer is a bit pattern");
}

#[test]
fn a_label_determines_the_scope() {
    let mut origins = Origins::default();
    let text = r#"g (float x) => (float y) { ["/blocks.3/q/Neg"] y = Neg (x) }"#;
    let graph = parse(text, &mut origins).unwrap();
    let origin = graph.node(graph.all_nodes()[0]).origin;
    assert_eq!(origins.scope_path(origins.get(origin).scope), "blocks.3/q");
}

#[test]
fn large_constants_are_not_shown() {
    let zeros = vec!["0"; 300].join(",");
    let text =
        format!("g () => (uint8[300] y) <uint8[300] w = {{{zeros}}}> {{ y = Identity (w) }}");
    let printed = print(&read(&text));
    assert!(printed.contains("uint8[300] w  # 300 bytes, not shown"), "{printed}");
    assert_eq!(error(&printed), "6:17: `w` has no data, and no earlier node computes it");
}

#[test]
fn values_without_a_name_are_numbered() {
    let mut graph = read("g (float x) => (float y) { v0 = Neg (x) t = Exp (v0) y = Neg (t) }");
    for id in graph.value_ids() {
        if graph.value(id).name == "t" {
            graph.value_mut(id).name.clear();
        }
    }
    assert!(print(&graph).contains("v1 = Exp (v0)"), "{}", print(&graph));
}

#[test]
fn errors_have_positions() {
    for (text, message) in [
        ("", "1:1: expected the name of a graph, found the end of the text"),
        ("g (float[2] x)\n=> (float[2] y)\n{ y = Neg x }", "3:11: expected `(`, found `x`"),
        ("g (float[2] x) => (float[2] y) { y = Neg (z) }", "1:43: `z` is unknown"),
        (
            "g (float[2] x) => (float[2] y) { }",
            "1:29: `y` has no data, and no earlier node computes it",
        ),
        ("g (float[2] x) => (float[2] x) { x = Neg (x) }", "1:34: the value `x` is defined twice"),
        ("g (quux[2] x) => () { }", "1:4: `quux` is not a tensor type"),
        ("g (float[] x) => () { }", "1:4: the rank is unknown; a scalar is written `float`"),
        ("g (float[-1] x) => () { }", "1:10: `-1` is not a dimension"),
        (
            "g () => () <float[2] w = {1}> { }",
            "1:13: a f32 tensor of shape [2] needs 8 bytes, but got 4",
        ),
        ("g () => () <int8 w = {128}> { }", "1:23: 128 is out of range for i8"),
        ("g () => () <bool w = {2}> { }", "1:23: a bool must be 0 or 1"),
        ("g (float x) => (double y) { y = Neg (x) }", "1:24: `y` is f32[], not f64[]"),
        ("g (float[2] x) => (float[3] y) { y = Neg (x) }", "1:29: `y` is f32[2], not f32[3]"),
        ("g (float x) => (float y) { y = a.F (x) t = a.F (x) }", "1:40: `t` needs a type"),
        (
            "g (float x) => (float y) { y = Neg <a: tensors = 1> (x) }",
            "1:50: unsupported attribute type `tensors`",
        ),
        ("g (float x) => (float y) { y = Neg <a = []> (x) }", "1:41: an empty list needs a type"),
        (
            "g (float x) => (float y) { y = Neg <a: int = 1.5> (x) }",
            "1:46: `1.5` is not a 64-bit integer",
        ),
        (
            "g (float x) => (float y) { y = Neg <a = @b> (x) }",
            "1:41: attributes of functions are not supported",
        ),
        ("g (\"é\n", "1:4: the string is not closed"),
        ("g (float \"é\" §", "1:14: unexpected character '§'"),
        ("g () => () { } f (x) => (y) { y = Neg (x) }", "1:19: an input needs a type"),
        (
            "g () => () { } <domain: \"d\"> f (float x) => (y) { y = d.f (x) }",
            "1:16: the function calls itself",
        ),
        (
            "g (float[\"b +\"] x) => () { }",
            "1:10: cannot read the dimension `b +`: expected a number, a variable or `(` at column 4",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn hostile_text_is_an_error() {
    let nested = "y = If (c) <then_branch = g () => (float y) { ".repeat(100_000);
    let long = "g () => () { } <domain: \"d\"> ".to_owned() + &"(".repeat(100_000);
    let huge = "g () => () <float[9223372036854775807,9223372036854775807] w = {1}> { }";
    let power = "g (float[\"(a + b + c + d + e + f + g + h)^64\"] x) => () { }";
    let dim = format!("g (float[\"{}\"] x) => () {{ }}", "-".repeat(1_000_000));
    let start = format!("g (bool c) => (float y) {{ {nested}");
    for text in [&start, &long, huge, power, &dim] {
        error(text);
    }
    assert_eq!(error(&start).split(": ").last(), Some("subgraphs are nested too deeply"));
}

/// Truncating a text, or removing or replacing any character, may fail but does not panic.
#[test]
fn broken_text_never_panics() {
    for text in PRINTED {
        for (i, c) in text.char_indices() {
            let _ = parse(&text[..i], &mut Origins::default());
            let rest = &text[i + c.len_utf8()..];
            let _ = parse(&format!("{}{rest}", &text[..i]), &mut Origins::default());
            for other in ["<", "9", "\"", "x", "-", "\\", "é"] {
                let _ = parse(&format!("{}{other}{rest}", &text[..i]), &mut Origins::default());
            }
        }
    }
}

#[test]
fn words_for_floats_are_names_where_a_name_is_expected() {
    let graph = read("g (float inf, float nan) => (float y) { y = Add (inf, nan) }");
    let names = graph.block(Graph::MAIN).inputs.iter().map(|id| graph.value(*id).name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["inf", "nan"]);
    let number = error("g (float 1.5) => (float y) { y = Neg (x) }");
    assert!(number.ends_with("expected the name of a value, found `1.5`"), "{number}");
    assert_eq!(
        ["_a", "a_1", "1a", "inf", "float"].map(quotable),
        ["_a", "a_1", "\"1a\"", "\"inf\"", "\"float\""]
    );
}

#[test]
fn only_the_domain_of_a_header_is_read() {
    let graph = read(
        "<ir_version: 10> g (float x) => (float y) { y = a.f (x) }
        <domain: \"a\", overload: \"b\"> f (float p) => (float q) { q = Neg (p) }",
    );
    assert_eq!(graph.functions[0].op.domain, "a");
}

#[test]
fn expressions_of_sizes_have_a_limited_length() {
    let text = |length: usize| {
        let size = "n".repeat(length);
        format!("g (float[\"{size}\"] x) => (float[\"{size}\"] y) {{ y = Neg (x) }}")
    };
    read(&text(1024));
    assert!(error(&text(1025)).ends_with("the dimension is too long"));
}

#[test]
fn subgraphs_nest_up_to_a_limit() {
    let text = |depth: usize| {
        let branch = |inner: String, i: usize| {
            format!(
                "v{i} = If (c) <then_branch = t{i} () => (float p{i}) {{ {inner} p{i} = Neg (x) }},
                else_branch = e{i} () => (float q{i}) {{ q{i} = Abs (x) }}>"
            )
        };
        let nodes = (1..depth).fold(String::new(), branch);
        format!("g (bool c, float x) => (float y) {{ {nodes} y = Neg (x) }}")
    };
    read(&text(48));
    assert!(error(&text(49)).ends_with("subgraphs are nested too deeply"));
}
