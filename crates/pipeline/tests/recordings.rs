//! Contents of recordings, metadata of models, and error messages.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write as _;
use std::sync::Arc;

use onnx_file::EncodeOptions;
use pipeline::{Converted, Lines, Places, Recording, record};
use provenance::{Frame, FrameKind, Origins, Sources, Span};

const LINES: &str = r#"
frames
  0 user "model.py" "Model.__call__" 3:4 3:9
  1 user "model.py" "Model.__call__" 4:4 4:9
links
  0 0
  1 1
stacks
  #0 0
  #1 1
"#;

/// Returns a program with one input `a`, one output `z`, and source lines.
fn program(header: &str, input: &str, eqns: &str) -> String {
    format!("{header}\n{{ lambda ; a:{input}. let\n{eqns}\n  in (z,) }}{LINES}")
}

fn parsed(text: &str) -> Recording {
    Recording::parse(text, 1 << 20).unwrap()
}

fn converted(text: &str) -> (Converted, Recording, Origins) {
    let (mut recording, mut origins) = (parsed(text), Origins::default());
    let converted = recording.convert(None, &mut origins).unwrap();
    (converted, recording, origins)
}

fn metadata(text: &str) -> String {
    let mut all = String::new();
    for prop in &converted(text).0.model.proto.metadata_props {
        writeln!(all, "{}: {}", prop.key, prop.value).unwrap();
    }
    all
}

const SIN: &str = "    z:f32[B] = sin a :: \"wave\" #0";

#[test]
fn options_are_recorded() {
    for option in [
        "opset=21",
        "target=\"any\"",
        "target=\"onnxruntime-web\"",
        "operators=\"Gelu=native\"",
        "compute=\"blocks.*=float16:all\\n*=bfloat16\"",
        "weights=\"*=int8:32\"",
        "assume=\"no_nan\"",
        "stacktrace=\"minimal\"",
        "source_map=True",
        "input_types=(\"float16\",)",
        "true_by_default=(0,)",
    ] {
        let (input, eqns) = match option.starts_with("true") {
            true => ("bool[]", "    z:bool[] = not a"),
            false => ("f32[B]", SIN),
        };
        let text = program(&format!("model[\n  {option}\n]"), input, eqns);
        let recording = parsed(&text);
        let Recording { program, boundary, options, stacks, .. } = &recording;
        let sources = Sources::default();
        let lines = Lines { stacks, entry: None, function: None, sources };
        let recorded = record(program, boundary, options, &lines, true);
        assert!(recorded.contains(option), "{option}: {recorded}");
        let again = parsed(&recorded);
        let lines = Lines { stacks: &again.stacks, ..lines };
        let twice = record(&again.program, &again.boundary, &again.options, &lines, true);
        assert_eq!(recorded, twice);
    }
}

#[test]
fn the_function_is_recorded() {
    let Recording { program, boundary, options, stacks, .. } = &parsed(&program("", "f32[B]", SIN));
    let (file, function): (Arc<str>, Arc<str>) = ("model.py".into(), "f".into());
    let span = Span { line: 3, column: 4, end_line: 3, end_column: 9 };
    let frame = Frame { path: Arc::clone(&file), file, function, span, kind: FrameKind::User };
    let lines = Lines { stacks, entry: None, function: Some(&frame), sources: Sources::default() };
    let recorded = record(program, boundary, options, &lines, true);
    let definition = "function=[file=\"model.py\" name=\"f\" line=3 kind=\"user\"]";
    assert!(recorded.contains(definition), "{recorded}");
}

#[test]
fn lines_are_needed_for_any_detail_or_a_map() {
    let needed = |header: &str| parsed(&program(header, "f32[B]", SIN)).options.writes_lines();
    assert!(!needed(""));
    assert!(needed("model[ stacktrace=\"minimal\" ]"));
    assert!(needed("model[ source_map=True ]"));
}

#[test]
fn metadata_of_nodes_needs_a_newer_format_unless_the_opset_is_old() {
    let version =
        |header: &str| converted(&program(header, "f32[B]", SIN)).0.model.proto.ir_version;
    let plain = version("");
    assert_eq!(version("model[ stacktrace=\"minimal\" ]"), EncodeOptions::IR_VERSION);
    assert_eq!(version("model[ opset=13 stacktrace=\"minimal\" ]"), version("model[ opset=13 ]"));
    assert!(plain < EncodeOptions::IR_VERSION);
}

#[test]
fn unknown_primitives_are_reported_with_the_lines_of_the_user() {
    let places = |eqns: &str| {
        let lines = LINES
            .replace("0 user", "0 library")
            .replace("links\n  0 0", "links\n  2 1\n  0 0 from 2");
        let text = program("", "f32[B]", eqns).replace(LINES, &lines);
        let (mut recording, mut origins) = (parsed(&text), Origins::default());
        let error = recording.convert(None, &mut origins).unwrap_err();
        let stacks = &mut recording.stacks;
        let mut places = Places { origins: &origins, stacks, resolve: &|_, _| {} };
        let places = places.diagnose(error).1.places;
        places.into_iter().map(|place| (place.span.line, place.label)).collect::<Vec<_>>()
    };
    assert_eq!(places("    z:f32[B] = foo a :: #0"), [(4, None)]);
    let both = places("    b:f32[B] = foo a :: #0\n    z:f32[B] = bar b :: #1");
    assert_eq!(both, [(4, Some("`foo`".to_owned())), (4, Some("`bar`".to_owned()))]);
}

#[test]
fn omitted_options_have_their_default() {
    let recording = parsed(&program("", "f32[B]", SIN));
    let Recording { program, boundary, options, stacks, .. } = &recording;
    let sources = Sources::default();
    let lines = Lines { stacks, entry: None, function: None, sources };
    let recorded = record(program, boundary, options, &lines, true);
    for option in ["opset", "target", "operators", "compute", "weights", "assume"] {
        assert!(recorded.contains(&format!("  {option}=None\n")), "{option}: {recorded}");
    }
}

#[test]
fn user_rules_are_not_recorded() {
    let problem = |eqns: &str| {
        let text = program("", "f32[B]", eqns);
        Recording::parse(&text, 1 << 20).unwrap_err().to_string()
    };
    assert_eq!(
        problem("    z:f32[B] = sin a :: external"),
        "`sin` is lowered by rules written in Python, which a recording does not hold"
    );
    assert_eq!(
        problem("    b:f32[B] = sin a :: external\n    z:f32[B] = cos b :: external"),
        "`sin`, `cos` are lowered by rules written in Python, which a recording does not hold"
    );
}

#[test]
fn metadata_contains_the_requirements() {
    assert_eq!(metadata(&program("", "f32[B]", SIN)), "");
    let constrained = program("where \"B >= 4\"", "f32[B]", SIN);
    assert_eq!(metadata(&constrained), "pkg.jax2onnx.constraints: B >= 4\n");
    let options = program(
        "model[\n  inputs=(\"x\",)\n  target=\"onnxruntime-web\"\n  operators=\"Gelu=native\"\n  \
         weights=\"*=int8:32\"\n  assume=\"no_nan\"\n  input_types=(\"float16\",)\n]",
        "f32[B]",
        SIN,
    );
    insta::assert_snapshot!(metadata(&options), @"
    pkg.jax2onnx.operators: Gelu=native
    pkg.jax2onnx.weight_formats: *=int8:32
    pkg.jax2onnx.target: onnxruntime-web
    pkg.jax2onnx.assume: no_nan
    pkg.jax2onnx.types: x=float32
    ");
}

#[test]
fn lines_are_written_for_any_detail_or_a_map() {
    let lines = |header: &str| {
        let (converted, ..) = converted(&program(header, "f32[B]", SIN));
        let keys = converted.model.proto.metadata_props.iter().map(|prop| prop.key.clone());
        let node = &converted.model.proto.graph.as_ref().unwrap().node[0];
        let (keys, on_nodes) = (keys.collect::<Vec<_>>(), !node.metadata_props.is_empty());
        (keys, on_nodes, converted.source_map.is_some())
    };
    let digest = vec!["pkg.jax2onnx.sourcemap.digest".to_owned()];
    let map = vec!["pkg.jax2onnx.sourcemap".to_owned()];
    assert_eq!(lines(""), (vec![], false, false));
    assert_eq!(lines("model[stacktrace=\"minimal\"]"), (vec![], true, false));
    assert_eq!(lines("model[source_map=True]"), (digest, false, true));
    assert_eq!(lines("model[stacktrace=\"sourcemap\"]"), (map, true, true));
}

/// The same operator twice on one line, and once on the next.
const THREE: &str = "    b:f64[2] = erf a :: \"\" #0\n    c:f64[2] = erf b :: \"\" #0\n    \
                     z:f64[2] = erf c :: \"\" #1";

#[test]
fn cpu_fallbacks_are_listed_once_per_line() {
    let eqns = "    b:i32[2] = population_count a :: \"\" #0\n    \
                c:i32[2] = population_count b :: \"\" #0\n    \
                z:i32[2] = population_count c :: \"\" #1";
    let text = program("model[target=\"webgpu\"]", "i32[2]", eqns);
    let (converted, mut recording, origins) = converted(&text);
    let stacks = &mut recording.stacks;
    let mut places = Places { origins: &origins, stacks, resolve: &|_, _| {} };
    let lines = places.fallbacks(&converted.fallbacks);
    assert!(converted.fallbacks.len() > lines.len());
    let mut distinct = lines.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), lines.len());
    assert!(lines.iter().any(|line| line.ends_with(" at model.py:3")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(" at model.py:4")), "{lines:?}");
}

#[test]
fn an_older_opset_keeps_more_nodes_on_the_device() {
    let eqns = "    b:bf16[1,4,4,1] = sin a :: \"\" #0\n    \
                c:f32[1,4,4,1] = convert_element_type[new_dtype=f32 weak_type=False] b\n    \
                z:f32[1,2,2,1] = reduce_window_max[window_dimensions=(1, 2, 2, 1) \
                window_strides=(1, 2, 2, 1) padding=((0, 0), (0, 0), (0, 0), (0, 0)) \
                base_dilation=(1, 1, 1, 1) window_dilation=(1, 1, 1, 1)] c";
    let built = |header: &str| {
        let converted = converted(&program(header, "bf16[1,4,4,1]", eqns)).0;
        let left: Vec<_> = converted.fallbacks.iter().map(|node| (node.op, node.until)).collect();
        (converted.opset, left)
    };
    assert_eq!(built("model[ target=\"cuda\" opset=22 ]"), (22, vec![("MaxPool", Some(21))]));
    let (opset, left) = built("model[ target=\"cuda\" ]");
    assert!(opset <= 21 && left.is_empty(), "{opset} {left:?}");
}

#[test]
fn missed_operators_are_reported_with_their_line() {
    let eqns = "    b:f32[C] = reduce_sum[axes=(0,)] a :: \"\" #0\n    \
                c:f32[1,C] = broadcast_in_dim[shape=(1, dim \"C\") broadcast_dimensions=(1,)] b :: \"\" #0\n    \
                d:f32[1,C] = div c 3.0:f32[] :: \"\" #0\n    \
                e:f32[3,C] = sub a d :: \"\" #0\n    \
                f:f32[3,C] = square e :: \"\" #0\n    \
                g:f32[C] = reduce_sum[axes=(0,)] f :: \"\" #0\n    \
                h:f32[1,C] = broadcast_in_dim[shape=(1, dim \"C\") broadcast_dimensions=(1,)] g :: \"\" #0\n    \
                i:f32[1,C] = div h 3.0:f32[] :: \"\" #0\n    \
                j:f32[1,C] = add i 1e-05:f32[] :: \"\" #0\n    \
                k:f32[1,C] = rsqrt[accuracy=None] j :: \"\" #0\n    \
                z:f32[3,C] = mul[out_dtype=None] e k :: \"\" #1";
    let text = program("model[operators=\"*=native\" stacktrace=\"minimal\"]", "f32[3,C]", eqns);
    let (converted, mut recording, origins) = converted(&text);
    let stacks = &mut recording.stacks;
    let mut places = Places { origins: &origins, stacks, resolve: &|_, _| {} };
    let missed: Vec<String> = converted.missed.iter().map(|one| places.missed(one)).collect();
    insta::assert_snapshot!(
        missed.join("\n"),
        @"LayerNormalization at model.py:4 stays elementary: the axes are not the last ones"
    );
    let model = &converted.model.proto;
    let written = model.metadata_props.iter().find(|prop| prop.key == provenance::MISSED).unwrap();
    assert_eq!(written.value, missed.join("\n"));
}

#[test]
fn graph_errors_have_suggestions() {
    let (_, mut recording, origins) = converted(&program("", "f64[2]", THREE));
    let stacks = &mut recording.stacks;
    let mut places = Places { origins: &origins, stacks, resolve: &|_, _| {} };
    let mut report = String::new();
    for error in [
        onnx_file::Error::TooDeep { origin: None }.into(),
        onnx_file::Error::TooLarge(1 << 32).into(),
        onnx::Error::Graph("a value has no name".to_owned()).into(),
        onnx::Error::OpsetUnsupported { given: 7, oldest: 9, newest: 28 }.into(),
    ] {
        let (family, diagnostic) = places.diagnose(error);
        writeln!(report, "{}{}", family.class_name(), diagnostic.render(&|_, _| None)).unwrap();
    }
    insta::assert_snapshot!(report, @r#"
    UnsupportedError[nested-too-deep] graphs are nested too deeply: protobuf readers allow 100 nested messages, or about 30 nested conditions and loops
      help: nest fewer conditions and loops
    InvalidInputError[model-too-large] the model takes 4294967296 bytes in one file, which is more than protobuf's limit of 2 GiB; save it with external data
      help: export with return_mode="file" and the standard export mode, which put weights into a file beside the model
    InternalError[invalid-graph] invalid graph: a value has no name
      help: this is a bug in jax2onnx, not in your code; please report it with the file that `record="model.jaxpr"` writes; `jax2onnx reduce model.jaxpr` makes it short
    InvalidInputError[invalid-option] opset 7 is not supported; choose one from 9 to 28
    "#);
}
