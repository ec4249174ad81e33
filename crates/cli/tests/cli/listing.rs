use cli::{ListedNode, Listing};
use insta::assert_snapshot;
use onnx::{assign_names, text};
use onnx_file::{EncodeOptions, encode, read};
use provenance::Origins;

/// Returns a model with every listed item: parameters, constants, a function, a branch and a loop.
fn sample() -> String {
    let zeros = |count| vec!["0.0"; count].join(", ");
    let (bias, kernel) = (zeros(300), zeros(1200));
    format!(
        r#"sample (float[b,4] x, bool flag) => (float[b,300] y, float[b,300] z)
        <float[4,300] "dense.kernel" = {{{kernel}}}, float[300] "dense.bias" = {{{bias}}}>
        {{
          one = Constant <value_float = 1.0> ()
          two = Constant <value_float = 2.0> ()
          three = Constant <value_int = 3> ()
          "/blocks.3/q/MatMul_output_0" = MatMul (x, "dense.kernel")
          "/blocks.3/Scale_output_0" = pkg.test.Scale ("/blocks.3/q/MatMul_output_0")
          "/If_output_0" = If (flag) <
            then_branch = then_branch () => (float[b,300] "/Add_1_output_0") {{
              "/Add_1_output_0" = Add ("/blocks.3/Scale_output_0", one)
            }},
            else_branch = else_branch () => (float[b,300] "/Mul_1_output_0") {{
              "/Mul_1_output_0" = Mul ("/blocks.3/Scale_output_0", two)
            }}
          >
          y, z = Loop (three, "", "/If_output_0", "/blocks.3/q/MatMul_output_0") <
            body = body (int64 "/Loop_body_in_0", bool "/Loop_body_in_1",
                         float[b,300] "/Loop_body_in_2", float[b,300] "/Loop_body_in_3")
                => (bool "/Loop_body_in_1", float[b,300] "/Add_2_output_0", float[b,300] "/Loop_body_in_3") {{
              "/Add_2_output_0" = Add ("/Loop_body_in_2", "dense.bias")
            }}
          >
        }}
        <domain: "pkg.test">
        Scale (float[b,300] Scale_in_0) => (float[b,300] "/Add_output_0") {{
          two = Constant <value_float = 2.0> ()
          offset = Constant <value = float[300] {{{bias}}}> ()
          "/Mul_output_0" = Mul (Scale_in_0, two)
          "/Add_output_0" = Add ("/Mul_output_0", offset)
        }}"#
    )
}

fn listing() -> Listing {
    let mut origins = Origins::default();
    let mut graph = text::parse(&sample(), &mut origins).unwrap();
    assign_names(&mut graph, &origins);
    let bytes = encode(&graph, &EncodeOptions::new(23)).unwrap().to_bytes().unwrap();
    let mut model = read(bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let mut spare = graph.input[0].clone();
    spare.name = "spare".into();
    graph.input.push(spare);
    let entry = onnx_file::proto::StringStringEntryProto { key: "k".into(), value: "v".into() };
    graph.node[0].metadata_props.push(entry);
    Listing::new(&model)
}

#[test]
fn a_model_is_listed_line_by_line() {
    assert_snapshot!(listing().text(true));
    let without = listing().text(false);
    assert!(listing().text(true).lines().count() > without.lines().count());
}

#[test]
fn inputs_that_nothing_reads_are_known() {
    assert_eq!(listing().unused_inputs(), ["spare"]);
}

#[test]
fn constants_and_nodes_are_listed() {
    let listing = listing();
    assert_snapshot!("constants", listing.constants().collect::<Vec<_>>().join("\n"));
    let node = |n: &ListedNode| format!("{:?}", n.results().collect::<Vec<_>>());
    assert_snapshot!("nodes", listing.nodes().map(node).collect::<Vec<_>>().join("\n"));
}

#[test]
fn one_function_is_selected_by_its_name() {
    for name in ["Scale", "pkg.test::Scale"] {
        let mut listing = listing();
        listing.select(name).unwrap();
        assert!(listing.text(false).contains("Scale_in_0") && listing.nodes().count() == 4);
        assert!(!listing.text(false).contains("function"));
    }
    assert_eq!(listing().select("scale").unwrap_err(), ["pkg.test::Scale"]);
}

#[test]
fn values_have_readers() {
    let listing = listing();
    let readers = listing.readers("/blocks.3/q/MatMul_output_0");
    assert_eq!(
        readers,
        [("pkg.test::Scale", vec!["/blocks.3/Scale_output_0"]), ("Loop", vec!["y", "z"])]
    );
}
