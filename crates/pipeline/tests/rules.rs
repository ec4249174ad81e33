//! Small programs at the limits of rules: the operators that they become, and the values of
//! programs whose operands are constants.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use jaxpr::Jaxpr;
use lower::{Context, Equation, Expands, ExternalRule, Parts, RuleError};
use onnx::Graph;
use pipeline::Recording;
use provenance::Origins;

/// Returns the recording of a program with the inputs `inputs` and the output `z`.
fn recording(inputs: &str, eqns: &str) -> Recording {
    let (header, inputs) = inputs.split_once('|').unwrap_or(("", inputs));
    let text = format!("{header}\n{{ lambda ; {inputs}. let\n{eqns}\n  in (z,) }}");
    Recording::parse(&text, 1 << 22).unwrap_or_else(|error| unreachable!("{error}\n{text}"))
}

fn lowered(inputs: &str, eqns: &str) -> Result<Graph, lower::Error> {
    let Recording { program, boundary, options, .. } = recording(inputs, eqns);
    let lowered = lower::lower(&program, &boundary, &options.lowering, &mut Origins::default());
    lowered.map(|lowered| lowered.graph)
}

/// Returns the names of the operators of all blocks, in the order of their nodes.
fn operators(inputs: &str, eqns: &str) -> Vec<String> {
    let graph = lowered(inputs, eqns).unwrap();
    let mut names = Vec::new();
    collect(&graph, Graph::MAIN, &mut names);
    names
}

fn collect(graph: &Graph, block: onnx::BlockId, names: &mut Vec<String>) {
    for node in graph.nodes_of(block).map(|id| graph.node(id)) {
        names.push(node.op.name.to_string());
        node.blocks().for_each(|inner| collect(graph, inner, names));
    }
}

fn count(operators: &[String], name: &str) -> usize {
    operators.iter().filter(|operator| *operator == name).count()
}

fn error(inputs: &str, eqns: &str) -> String {
    lowered(inputs, eqns).unwrap_err().to_string()
}

/// Returns the elements of the output of a program without inputs.
fn values(eqns: &str) -> Vec<f64> {
    let converted = recording("", eqns).convert(None, &mut Origins::default()).unwrap();
    let graph = converted.graph;
    // A constant output is a copy of that constant.
    let output = graph.block(Graph::MAIN).outputs()[0];
    let copy = graph.producer(output).map(|id| graph.node(id)).filter(|node| node.is("Identity"));
    let tensor = graph.facts().constant(copy.and_then(|copy| copy.input(0)).unwrap_or(output));
    let tensor =
        tensor.unwrap_or_else(|| unreachable!("not a constant:\n{}", onnx::text::print(&graph)));
    let ints = || tensor.to_ints().map(|ints| ints.iter().map(|int| *int as f64).collect());
    tensor.to_f64s().or_else(ints).unwrap()
}

/// Returns an array as a literal: the numbers from zero on.
fn iota(ty: &str, length: usize) -> String {
    let numbers: Vec<String> = (0..length).map(|number| format!("{number}")).collect();
    format!("{{{}}}:{ty}", numbers.join(", "))
}

/// Returns the parameters of a `gather` of single elements.
fn points(map: &str, sizes: &str, mode: &str) -> String {
    format!(
        "z:f32RESULT = gather[dimension_numbers=[offset_dims=() collapsed_slice_dims={map} \
         start_index_map={map} operand_batching_dims=() start_indices_batching_dims=()] \
         slice_sizes={sizes} unique_indices=False indices_are_sorted=False mode={mode} \
         fill_value=7.0]"
    )
}

/// Gathers single elements of a vector of eight numbers, counted from zero.
fn of_vector(indices: &str, result: &str, mode: &str) -> (Vec<String>, Vec<f64>) {
    let gather = points("(0,)", "(1,)", mode).replace("RESULT", result);
    let known = format!("{gather} {} {indices}", iota("f32[8]", 8));
    (operators("a:f32[8]", &format!("{gather} a {indices}")), values(&known))
}

/// Gathers single elements of a matrix with six columns, where rows count in tens.
fn of_matrix(indices: &str, result: &str) -> (Vec<String>, Vec<f64>) {
    let gather = points("(0, 1)", "(1, 1)", "CLIP").replace("RESULT", result);
    let rows: Vec<_> = (0..4).flat_map(|row| (0..6).map(move |c| row * 10 + c)).collect();
    let rows = format!("{rows:?}").replace('[', "{").replace(']', "}:f32[4,6]");
    let known = format!("{gather} {rows} {indices}");
    (operators("a:f32[4,6]", &format!("{gather} a {indices}")), values(&known))
}

#[test]
fn equally_spaced_positions_are_a_slice() {
    for (indices, result, mode, expected) in [
        ("{1, 3, 5}:i32[3,1]", "[3]", "CLIP", vec![1.0, 3.0, 5.0]),
        ("{1, 3, 5}:i32[3,1]", "[3]", "FILL_OR_DROP", vec![1.0, 3.0, 5.0]),
        ("{6, 4, 2}:i32[3,1]", "[3]", "CLIP", vec![6.0, 4.0, 2.0]),
        ("{1, 3, 5}:i32[1,3,1]", "[1,3]", "CLIP", vec![1.0, 3.0, 5.0]),
        // Starts are clamped first.
        ("{-1, 1}:i32[2,1]", "[2]", "CLIP", vec![0.0, 1.0]),
        ("{-1, 1}:i32[1,2,1]", "[1,2]", "CLIP", vec![0.0, 1.0]),
    ] {
        let (operators, values) = of_vector(indices, result, mode);
        assert_eq!((count(&operators, "Slice"), count(&operators, "Gather")), (1, 0), "{indices}");
        assert_eq!(values, expected, "{indices}");
    }
    for (indices, expected) in [
        ("{1, 1, 1, 2, 1, 3}:i32[3,2]", vec![11.0, 12.0, 13.0]),
        ("{3, 0, 2, 0, 1, 0}:i32[3,2]", vec![30.0, 20.0, 10.0]),
    ] {
        let (operators, values) = of_matrix(indices, "[3]");
        assert_eq!(count(&operators, "GatherND"), 0, "{indices}");
        assert_eq!(values, expected, "{indices}");
    }
    for (indices, expected) in [
        ("{1, 0, 1, 2, 1, 4, 2, 0, 2, 2, 2, 4}", [10.0, 12.0, 14.0, 20.0, 22.0, 24.0]),
        ("{-1, 0, -1, 2, -1, 4, 2, 0, 2, 2, 2, 4}", [0.0, 2.0, 4.0, 20.0, 22.0, 24.0]),
    ] {
        let (operators, values) = of_matrix(&format!("{indices}:i32[2,3,2]"), "[2,3]");
        assert_eq!((count(&operators, "Slice"), count(&operators, "GatherND")), (1, 0));
        assert_eq!(values, expected, "{indices}");
    }
}

#[test]
fn other_known_positions_are_gathered() {
    for (indices, mode, expected) in [
        ("{1, 2, 4}:i32[3,1]", "CLIP", [1.0, 2.0, 4.0]),
        ("{5, 9, 2}:i32[3,1]", "CLIP", [5.0, 7.0, 2.0]),
        ("{5, 7, 9}:i32[3,1]", "CLIP", [5.0, 7.0, 7.0]),
        ("{5, 7, 9}:i32[3,1]", "FILL_OR_DROP", [5.0, 7.0, 7.0]),
        ("{0, 2, 9}:i32[3,1]", "FILL_OR_DROP", [0.0, 2.0, 7.0]),
        ("{-1, 0, 1}:i32[3,1]", "FILL_OR_DROP", [7.0, 0.0, 1.0]),
        ("{3, 3, 3}:i32[3,1]", "CLIP", [3.0, 3.0, 3.0]),
    ] {
        let (operators, values) = of_vector(indices, "[3]", mode);
        assert_eq!((count(&operators, "Slice"), count(&operators, "Gather")), (0, 1), "{indices}");
        assert_eq!(values, expected, "{indices} {mode}");
    }
    for (indices, result, expected) in [
        // A diagonal, and a grid with one number out of line.
        ("{0, 0, 1, 1, 2, 2}:i32[3,2]", "[3]", vec![0.0, 11.0, 22.0]),
        (
            "{1, 0, 1, 2, 1, 4, 2, 0, 2, 2, 2, 5}:i32[2,3,2]",
            "[2,3]",
            vec![10.0, 12.0, 14.0, 20.0, 22.0, 25.0],
        ),
    ] {
        let (operators, values) = of_matrix(indices, result);
        assert_eq!(
            (count(&operators, "Slice"), count(&operators, "GatherND")),
            (0, 1),
            "{indices}"
        );
        assert_eq!(values, expected, "{indices}");
    }
}

#[test]
fn a_single_known_window_out_of_bounds_is_filled() {
    assert_eq!(of_vector("{-2}:i32[1,1]", "[1]", "FILL_OR_DROP").1, [7.0]);
    assert_eq!(of_vector("{-2}:i32[1,1]", "[1]", "CLIP").1, [0.0]);
    let several = points("(0,)", "(1,)", "FILL_OR_DROP").replace("7.0", "{7.0, 8.0}:f32[2]");
    let reason = error("a:f32[8] b:i32[1,1]", &format!("{} a b", several.replace("RESULT", "[1]")));
    assert!(reason.starts_with("`gather`: parameter `fill_value`: expected a number"), "{reason}");
}

#[test]
fn positions_that_count_up_are_a_slice_only_if_they_are_in_bounds() {
    let gathered = |first: &str, operand: &str| {
        let eqns = format!(
            "b:i32[n,1] = iota[dtype=i32 shape=(dim \"n\", 1) dimension=0]\n\
             c:i32[n,1] = add b {first}:i32[]\n{} a c",
            points("(0,)", "(1,)", "CLIP").replace("RESULT", "[n]")
        );
        count(&operators(&format!("a:f32[{operand}]"), &eqns), "Gather")
    };
    assert_eq!(gathered("0", "n"), 0);
    assert_eq!(gathered("1", "n + 1"), 0);
    assert_eq!(gathered("1", "n"), 1);
    assert_eq!(gathered("-1", "n"), 1);
}

#[test]
fn positions_that_count_through_an_axis_are_a_batch() {
    let is_batch = |rows: &str, first: &str, step: &str, collapsed: &str| {
        let eqns = format!(
            "c:i32[3,1] = iota[dtype=i32 shape=(3, 1) dimension=0]\n\
             d:i32[3,1] = mul c {step}:i32[]\ne:i32[3,1] = add d {first}:i32[]\n\
             f:i32[3,1] = broadcast_in_dim[shape=(3, 1) broadcast_dimensions=(0,)] b\n\
             g:i32[3,2] = concatenate[dimension=1] e f\n{} a g",
            match collapsed {
                "(0, 1)" => points("(0, 1)", "(1, 1)", "CLIP").replace("RESULT", "[3]"),
                _ => points("(0, 1)", "(1, 1)", "CLIP")
                    .replace("RESULT", "[3,1]")
                    .replace("offset_dims=()", "offset_dims=(1,)")
                    .replace("collapsed_slice_dims=(0, 1)", "collapsed_slice_dims=(1,)"),
            }
        );
        let graph = lowered(&format!("a:f32[{rows},6] b:i32[3]"), &eqns).unwrap();
        onnx::text::print(&graph).contains("batch_dims")
    };
    assert!(is_batch("3", "0", "1", "(0, 1)"));
    assert!(!is_batch("3", "0", "1", "(1,)"), "the result has the axis");
    for (rows, first, step) in [("4", "0", "1"), ("3", "1", "1"), ("3", "0", "2"), ("6", "0", "2")]
    {
        assert!(!is_batch(rows, first, step, "(0, 1)"), "{rows} {first} {step}");
    }
}

#[test]
fn windows_out_of_bounds_are_filled_as_a_whole() {
    let rows = |indices: &str, mode: &str| {
        values(&format!(
            "z:f32[2,3] = gather[dimension_numbers=[offset_dims=(1,) collapsed_slice_dims=(0,) \
             start_index_map=(0, 1) operand_batching_dims=() start_indices_batching_dims=()] \
             slice_sizes=(1, 3) unique_indices=False indices_are_sorted=False mode={mode} \
             fill_value=-1.0] {} {indices}",
            iota("f32[3,3]", 9)
        ))
    };
    // The second index has a single valid value, which is not removed if others drop the window.
    let filled = [3.0, 4.0, 5.0, -1.0, -1.0, -1.0];
    assert_eq!(rows("{1, 0, 2, 1}:i32[2,2]", "FILL_OR_DROP"), filled);
    assert_eq!(rows("{1, 0, 2, 1}:i32[2,2]", "CLIP"), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let whole = values(
        "z:f32[2,3] = gather[dimension_numbers=[offset_dims=(1,) collapsed_slice_dims=() \
         start_index_map=(0,) operand_batching_dims=() start_indices_batching_dims=()] \
         slice_sizes=(3,) unique_indices=False indices_are_sorted=False mode=CLIP \
         fill_value=None] {0.0, 1.0, 2.0}:f32[3] {4, 1}:i32[2,1]",
    );
    assert_eq!(whole, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
}

#[test]
fn windows_are_filled_with_the_default_of_their_type() {
    for (ty, element, expected) in [
        ("i8", "1", -128.0),
        ("u8", "1", 255.0),
        ("bool", "False", 1.0),
        ("i32", "1", f64::from(i32::MIN)),
    ] {
        let gather =
            points("(0,)", "(1,)", "FILL_OR_DROP").replace("fill_value=7.0", "fill_value=None");
        let gather = gather.replace("f32RESULT", &format!("{ty}[2]"));
        let found = values(&format!("{gather} {{{element}}}:{ty}[1] {{0, 1}}:i32[2,1]"));
        assert_eq!(found[1], expected, "{ty}");
    }
    let gather =
        points("(0,)", "(1,)", "FILL_OR_DROP").replace("fill_value=7.0", "fill_value=None");
    let found =
        values(&format!("{} {{2.0}}:f32[1] {{0, 1}}:i32[2,1]", gather.replace("RESULT", "[2]")));
    assert!(found[0] == 2.0 && found[1].is_nan());
}

#[test]
fn finite_numbers_make_windows_that_would_be_nan_impossible() {
    let guards = |ty: &str, fill: &str, mode: &str| {
        let gather = points("(0,)", "(1,)", mode).replace("fill_value=7.0", fill);
        let gather = gather.replace("f32RESULT", &format!("{ty}[2]"));
        let inputs = format!("model[ assume=\"finite\" ]|a:{ty}[4] b:i32[2,1]");
        let operators = operators(&inputs, &format!("{gather} a b"));
        count(&operators, "Where") + count(&operators, "Clip")
    };
    assert_eq!(guards("f32", "fill_value=None", "FILL_OR_DROP"), 0);
    assert_eq!(guards("f32", "fill_value=nan", "FILL_OR_DROP"), 0);
    assert_eq!(guards("f32", "fill_value=0.0", "FILL_OR_DROP"), 2);
    assert_eq!(guards("i32", "fill_value=None", "FILL_OR_DROP"), 2);
    assert_eq!(guards("f32", "fill_value=None", "CLIP"), 1);
}

#[test]
fn indices_are_clamped_to_equal_limits_at_once() {
    let clamped = |columns: &str| {
        let gather = points("(0, 1)", "(1, 1)", "CLIP").replace("RESULT", "[2]");
        let operators =
            operators(&format!("a:f32[4,{columns}] b:i32[2,2]"), &format!("{gather} a b"));
        (count(&operators, "Clip"), count(&operators, "Min"))
    };
    assert_eq!(clamped("4"), (1, 0));
    assert_eq!(clamped("6"), (0, 1));
}

fn updated(shape: &str, update: &str, starts: &str) -> Vec<String> {
    let eqns = format!("z:f32{shape} = dynamic_update_slice a b {starts}");
    operators(&format!("a:f32{shape} b:f32{update} c:i32[]"), &eqns)
}

#[test]
fn few_positions_are_constants_and_many_are_computed_or_selected() {
    let column = |rows: usize| updated("[5000,3]", &format!("[{rows},1]"), "0:i32[] c");
    let few = updated("[2048,3]", "[2048,1]", "0:i32[] c");
    assert_eq!((count(&few, "ScatterND"), count(&few, "Mul"), count(&few, "Range")), (1, 0, 0));
    let many = updated("[2049,3]", "[2049,1]", "0:i32[] c");
    assert_eq!((count(&many, "ScatterND"), count(&many, "Where")), (0, 1));
    assert_eq!(count(&column(5000), "Where"), 1);
    // Each position stands for many elements, or for few.
    assert_eq!(count(&updated("[5000,3,8]", "[5000,1,8]", "0:i32[] c 0:i32[]"), "ScatterND"), 1);
    assert_eq!(count(&updated("[5000,3,7]", "[5000,1,7]", "0:i32[] c 0:i32[]"), "Where"), 1);
    let vector = updated("[6000]", "[5000]", "c");
    assert_eq!(
        (count(&vector, "ScatterND"), count(&vector, "Range"), count(&vector, "Mul")),
        (1, 1, 0)
    );
    let ranges = |size: usize| {
        let eqns = format!("z:f32[{size}] = dynamic_slice[slice_sizes=({size},)] a b");
        count(&operators("a:f32[6000] b:i32[]", &eqns), "Range")
    };
    assert_eq!((ranges(4096), ranges(4097)), (0, 1));
}

#[test]
fn updates_at_known_starts_replace_that_part() {
    let start = |start: usize| {
        values(&format!(
            "z:f32[5] = dynamic_update_slice {} {{8.0, 9.0}}:f32[2] {start}:i32[]",
            iota("f32[5]", 5)
        ))
    };
    assert_eq!(start(0), [8.0, 9.0, 2.0, 3.0, 4.0]);
    assert_eq!(start(1), [0.0, 8.0, 9.0, 3.0, 4.0]);
    assert_eq!(start(4), [0.0, 1.0, 2.0, 8.0, 9.0]);
    let slice = format!("z:f32[2] = dynamic_slice[slice_sizes=(2,)] {} 9:i32[]", iota("f32[5]", 5));
    assert_eq!(values(&slice), [3.0, 4.0]);
}

/// Returns the parameters of a scatter.
fn scatter(name: &str, windows: &str, inserted: &str, map: &str) -> String {
    format!(
        "z:f32RESULT = {name}[update_jaxpr=None update_consts=() dimension_numbers=[\
         update_window_dims={windows} inserted_window_dims={inserted} \
         scatter_dims_to_operand_dims={map} operand_batching_dims=() \
         scatter_indices_batching_dims=()] indices_are_sorted=False unique_indices=False \
         mode=FILL_OR_DROP]"
    )
}

#[test]
fn numbers_at_known_positions_of_inner_axes_are_selected() {
    let columns = |name: &str, indices: &str, update: &str| {
        let scatter = scatter(name, "(1,)", "(1,)", "(1,)").replace("RESULT", "[2,3]");
        let eqns = format!("{scatter} a {indices} {update}");
        let operators = operators("a:f32[2,3]", &eqns);
        let selects = count(&operators, "Where") == 1 && count(&operators, "ScatterND") == 0;
        (selects, values(&eqns.replace(" a {", &format!(" {} {{", iota("f32[2,3]", 6)))))
    };
    let repeated = "{5.0, 5.0, 5.0, 5.0}:f32[2,2]";
    let (selects, found) = columns("scatter", "{0, 2}:i32[2,1]", repeated);
    assert!(selects && found == [5.0, 1.0, 5.0, 5.0, 4.0, 5.0]);
    let (selects, found) = columns("scatter", "{2, 2}:i32[2,1]", repeated);
    assert!(selects && found == [0.0, 1.0, 5.0, 3.0, 4.0, 5.0], "the same number is written twice");
    let (selects, found) = columns("scatter-add", "{0, 2}:i32[2,1]", repeated);
    assert!(selects && found == [5.0, 1.0, 7.0, 8.0, 4.0, 10.0]);
    let (selects, found) = columns("scatter-add", "{2, 2}:i32[2,1]", repeated);
    assert!(!selects && found == [0.0, 1.0, 12.0, 3.0, 4.0, 15.0], "it is added twice");
    let (selects, _) = columns("scatter", "{0, 2}:i32[2,1]", "{5.0, 5.0, 5.0, 6.0}:f32[2,2]");
    assert!(!selects, "the numbers differ");
    let rows = scatter("scatter", "(1,)", "(0,)", "(0,)").replace("RESULT", "[2,3]");
    let update = "{5.0, 5.0, 5.0}:f32[1,3]";
    let found = operators("a:f32[2,3]", &format!("{rows} a {{1}}:i32[1,1] {update}"));
    assert_eq!(count(&found, "ScatterND"), 1, "leading axes are written as slices");
}

#[test]
fn scatters_reach_axes_of_size_one() {
    let single = scatter("scatter-add", "()", "(0, 1, 2)", "(0,)").replace("RESULT", "[3,1,1]");
    let eqns =
        format!("{single} {{1.0, 2.0, 3.0}}:f32[3,1,1] {{2, 0}}:i32[2,1] {{10.0, 20.0}}:f32[2]");
    assert_eq!(values(&eqns), [21.0, 2.0, 13.0]);
    let whole = scatter("scatter", "(1,)", "()", "(0,)").replace("RESULT", "[3]");
    let at = |index: i64| {
        values(&format!(
            "{whole} {} {{{index}}}:i32[1,1] {{7.0, 8.0, 9.0}}:f32[1,3]",
            iota("f32[3]", 3)
        ))
    };
    assert_eq!(at(0), [7.0, 8.0, 9.0]);
    assert_eq!(at(1), [0.0, 1.0, 2.0], "the window is out of bounds");
    let written = operators("a:f32[3] b:i32[1,1] c:f32[1,3]", &format!("{whole} a b c"));
    assert_eq!((count(&written, "ScatterND"), count(&written, "Where")), (0, 1));
    let nothing = scatter("scatter", "()", "(0,)", "(0,)").replace("RESULT", "[3]");
    let nothing = format!("{nothing} a b c");
    assert!(operators("a:f32[3] b:i32[0,1] c:f32[0]", &nothing).is_empty());
}

#[test]
fn conditions_behind_an_index_are_used_only_if_the_index_is_the_first_of_them() {
    let chosen = |ty: &str, first: &str, axis: usize, shape: &str| {
        let eqns = format!(
            "c:{ty}[{first},2] = concatenate[dimension=0] a b\n\
             d:i32{shape} = argmax[axes=({axis},) index_dtype=i32] c\n\
             z:f32{shape} = select_n d e f"
        );
        let half = if first == "2" { "1" } else { "2" };
        let inputs = format!("a:{ty}[{half},2] b:{ty}[{half},2] e:f32{shape} f:f32{shape}");
        count(&operators(&inputs, &eqns), "LessOrEqual")
    };
    assert_eq!(chosen("bool", "2", 0, "[2]"), 0);
    assert_eq!(chosen("i32", "2", 0, "[2]"), 1, "numbers are no conditions");
    assert_eq!(chosen("bool", "2", 1, "[2]"), 1, "another axis");
    assert_eq!(chosen("bool", "4", 0, "[2]"), 1, "several conditions each");
}

#[test]
fn conversions_in_range_need_no_guards() {
    let converted = |assume: &str, from: &str, to: &str| {
        let eqns = format!("z:{to}[2] = convert_element_type[new_dtype={to} weak_type=False] a");
        operators(&format!("model[ assume=\"{assume}\" ]|a:{from}[2]"), &eqns)
    };
    assert_eq!(converted("casts_in_range", "f32", "i8"), ["Cast"]);
    assert_eq!(converted("casts_in_range", "f32", "i32"), ["Cast"]);
    let guarded = converted("casts_in_range", "f32", "i4");
    assert!(
        count(&guarded, "Cast") == 2 && guarded.len() > 2,
        "a byte has no fraction: {guarded:?}"
    );
    let small = converted("casts_in_range", "f32", "f8e4m3fn");
    assert!(small.len() > 1, "numbers beyond the largest one are no integers: {small:?}");
    assert_eq!(count(&converted("", "f32", "i8"), "Cast"), 1);
    assert_eq!(count(&converted("", "f32", "i4"), "Cast"), 2);
}

/// Returns the equation of a reduction of windows that move by one, without its operand.
fn window(name: &str, ty: &str, output: usize, size: usize, pads: &str, dilation: usize) -> String {
    format!(
        "z:{ty}[{output}] = {name}[window_dimensions=({size},) window_strides=(1,) padding=({pads},) \
         base_dilation=(1,) window_dilation=({dilation},)]"
    )
}

#[test]
fn only_windows_without_padding_cover_an_axis() {
    let sums = |pads: &str, output: usize| {
        values(&format!(
            "{} {{1, 2, 3, 4}}:i32[4]",
            window("reduce_window_sum", "i32", output, 4, pads, 1)
        ))
    };
    assert_eq!(sums("(0, 0)", 1), [10.0]);
    assert_eq!(sums("(1, 0)", 2), [6.0, 10.0]);
    assert_eq!(sums("(0, 1)", 2), [10.0, 9.0]);
    let dilated = window("reduce_window_sum", "i32", 1, 4, "(1, 2)", 2);
    assert_eq!(values(&format!("{dilated} {{1, 2, 3, 4}}:i32[4]")), [6.0]);
}

#[test]
fn windows_that_may_be_empty_are_not_pooled() {
    let pooled = |output: usize, pads: &str| {
        let eqns = format!("{} a", window("reduce_window_max", "f32", output, 2, pads, 1));
        count(&operators("a:f32[4]", &eqns), "MaxPool")
    };
    assert_eq!(pooled(4, "(1, 0)"), 1);
    assert_eq!(pooled(5, "(2, 0)"), 0);
    assert_eq!(pooled(5, "(0, 2)"), 0);
}

#[test]
fn short_windows_are_combined_element_by_element() {
    let maxima = |size: usize| {
        let window = window("reduce_window_max", "i32", 21 - size, size, "(0, 0)", 1);
        count(&operators("a:i32[20]", &format!("{window} a")), "Max")
    };
    assert_eq!(maxima(8), 7);
    assert_eq!(maxima(9), 4, "longer ones are doubled");
}

#[test]
fn running_extrema_of_booleans_start_with_their_identity() {
    let running = |name: &str, booleans: &str| {
        values(&format!("z:bool[3] = {name}[axis=0 reverse=False] {{{booleans}}}:bool[3]"))
    };
    assert_eq!(running("cummax", "False, True, False"), [0.0, 1.0, 1.0]);
    assert_eq!(running("cummin", "True, False, True"), [1.0, 0.0, 0.0]);
}

#[test]
fn reductions_of_nothing_are_the_identity() {
    assert_eq!(values("z:bool[] = reduce_or[axes=(0,)] {}:bool[0]"), [0.0]);
    assert_eq!(values("z:bool[] = reduce_and[axes=(0,)] {}:bool[0]"), [1.0]);
    let cast = |size: usize| {
        let graph =
            lowered(&format!("a:bool[{size}]"), "z:bool[] = reduce_or[axes=(0,)] a").unwrap();
        onnx::text::print(&graph).contains("uint8")
    };
    assert!(!cast(4096) && cast(4097), "many booleans are reduced as bytes");
}

#[test]
fn orders_of_polygamma_that_are_known_need_one_formula() {
    let digammas = |order: &str| {
        count(&operators("a:f32[2]", &format!("z:f32[2] = polygamma {order}:f32[] a")), "Cos")
    };
    assert_eq!((digammas("1.0"), digammas("4.0")), (0, 0));
    assert_eq!((digammas("0.0"), digammas("1.5")), (1, 1));
}

#[test]
fn upper_halves_of_long_products_have_the_right_sign() {
    let upper = |ty: &str, a: &str, b: &str| {
        values(&format!("z:{ty}[1] = mulhi {{{a}}}:{ty}[1] {{{b}}}:{ty}[1]"))[0]
    };
    assert_eq!(upper("i64", "-1", "2"), -1.0);
    assert_eq!(upper("i64", "-4611686018427387904", "-8"), 2.0);
    assert_eq!(upper("i64", "4611686018427387904", "8"), 2.0);
    assert_eq!(upper("u64", "18446744073709551615", "8"), 7.0);
}

#[test]
fn precision_is_reduced_only_where_it_is_lower() {
    let reduced = |exponent: usize, mantissa: usize| {
        let eqns = format!(
            "z:f32[2] = reduce_precision[exponent_bits={exponent} mantissa_bits={mantissa}] a"
        );
        operators("a:f32[2]", &eqns)
    };
    assert!(reduced(8, 23).is_empty());
    assert_eq!(reduced(8, 7), ["Cast", "Cast"]);
    assert!(reduced(5, 7).len() > 2);
    assert!(reduced(8, 8).len() > 2);
    assert_eq!(count(&reduced(8, 10), "Greater"), 0, "the exponents stay");
    assert_eq!(count(&reduced(5, 23), "Add"), 0, "the mantissas stay");
    assert_eq!((count(&reduced(5, 10), "Greater"), count(&reduced(5, 10), "Add")), (1, 2));
}

#[test]
fn short_transforms_are_products() {
    let transformed = |kind: &str, input: &str, output: &str, length: usize| {
        let eqns = format!("z:{output} = fft[fft_type={kind} fft_lengths=({length},)] a");
        count(&operators(&format!("a:{input}"), &eqns), "DFT")
    };
    assert_eq!(transformed("FFT", "c64[64]", "c64[64]", 64), 0);
    assert!(transformed("FFT", "c64[128]", "c64[128]", 128) > 0);
    assert_eq!(transformed("RFFT", "f32[64]", "c64[33]", 64), 0);
    assert!(transformed("RFFT", "f32[128]", "c64[65]", 128) > 0);
    assert_eq!(transformed("IRFFT", "c64[33]", "f32[64]", 64), 0);
    assert!(transformed("IRFFT", "c64[65]", "f32[128]", 128) > 0);
    let half = operators("a:c64[33]", "z:f32[64] = fft[fft_type=IRFFT fft_lengths=(64,)] a");
    assert_eq!(count(&half, "Gather"), 2, "only the parts of the input are taken from it");
}

#[test]
fn products_are_computed_in_the_wider_type_of_their_operands() {
    let product = |ty: &str, result: &str| {
        operators(
            &format!("a:{ty}[2,3] b:{ty}[3,4]"),
            &format!(
                "z:{result}[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) \
                 precision=None preferred_element_type={result}] a b"
            ),
        )
    };
    assert_eq!(product("f32", "f32"), ["MatMul"]);
    assert_eq!(product("f32", "bf16"), ["MatMul", "Cast"]);
    assert_eq!(product("bf16", "f32"), ["Cast", "Cast", "MatMul"]);
    assert_eq!(product("f8e4m3fn", "f8e4m3fn"), ["Cast", "Cast", "MatMul", "Cast"]);
}

#[test]
fn complex_numbers_are_created_and_keep_their_bits() {
    assert_eq!(
        count(
            &operators("a:c64[2]", "z:c64[2] = bitcast_convert_type[new_dtype=c64] a"),
            "BitCast"
        ),
        0
    );
    assert_eq!(
        error("a:c64[2]", "z:c128[2] = bitcast_convert_type[new_dtype=c128] a"),
        "`bitcast_convert_type`: the bits of complex numbers cannot be reinterpreted as another type"
    );
    assert_eq!(
        error("a:c64[2]", "z:f32[2,2] = bitcast_convert_type[new_dtype=f32] a"),
        "`bitcast_convert_type`: the bits of complex numbers cannot be reinterpreted as another type"
    );
    let created = "a:c64[3] = iota[dtype=c64 shape=(3,) dimension=0]\n";
    assert_eq!(values(&format!("{created}z:f32[3] = real a")), [0.0, 1.0, 2.0]);
    assert_eq!(values(&format!("{created}z:f32[3] = imag a")), [0.0; 3]);
}

#[test]
fn complex_numbers_are_raised_to_real_powers_by_their_angle() {
    let square = "a:c64[] = pow {0.0, 2.0}:c64[] {3.0, 0.0}:c64[]\n";
    let part = |part: &str| values(&format!("{square}z:f32[] = {part} a"))[0];
    // The cube of 2i is -8i.
    assert!(part("real").abs() < 1e-5 && (part("imag") + 8.0).abs() < 1e-5);
}

#[test]
fn single_and_distinct_windows_of_complex_numbers_are_written_without_a_loop() {
    let loops = |windows: usize, unique: &str, mode: &str| {
        let eqns = format!(
            "z:c64[3] = scatter-mul[update_jaxpr=None update_consts=() dimension_numbers=[\
             update_window_dims=() inserted_window_dims=(0,) scatter_dims_to_operand_dims=(0,) \
             operand_batching_dims=() scatter_indices_batching_dims=()] \
             indices_are_sorted=False unique_indices={unique} mode={mode}] a b c"
        );
        count(&operators(&format!("a:c64[3] b:i32[{windows},1] c:c64[{windows}]"), &eqns), "Loop")
    };
    assert_eq!(loops(1, "False", "FILL_OR_DROP"), 0);
    assert_eq!(loops(2, "True", "CLIP"), 0);
    assert_eq!(loops(2, "False", "CLIP"), 1);
    assert_eq!(loops(2, "True", "FILL_OR_DROP"), 1, "a dropped window has the place of another");
}

#[test]
fn decompositions_of_trivial_matrices_have_no_loops() {
    let loops = |inputs: &str, eqns: &str| count(&operators(inputs, eqns), "Loop");
    assert_eq!(loops("a:f32[1,1]", "b:f32[1,1] z:f32[0] = hessenberg a\n"), 0);
    assert!(loops("a:f32[2,2]", "z:f32[2,2] b:f32[1] = hessenberg a\n") > 0);
    let empty = "z:f32[3,2] = ormqr[left=True transpose=False] a b c";
    assert!(operators("a:f32[3,0] b:f32[0] c:f32[3,2]", empty).is_empty());
    let none = |left: &str, right: &str, eqns: &str| {
        let params = format!(
            "compute_left_eigenvectors={left} compute_right_eigenvectors={right} implementation=None"
        );
        operators("a:f32[n,0,0]", &format!("z:c64[n,0]{eqns} = eig[{params}] a"))
    };
    assert_eq!(count(&none("False", "False", ""), "Loop"), 0);
    assert_eq!(count(&none("True", "True", " b:c64[n,0,0] c:c64[n,0,0]"), "Loop"), 0);
    let part = |part: &str| {
        let eqns = format!(
            "b:f32[2,2] z:f32[2] = eigh[lower=True sort_eigenvalues=True subset_by_index={part}] a"
        );
        lowered("a:f32[2,2]", &eqns).map(drop)
    };
    assert!(part("(0, 2)").is_ok() && part("None").is_ok());
    assert!(part("(1, 2)").is_err() && part("(0, 1)").is_err());
}

#[test]
fn tall_matrices_have_as_many_left_vectors_as_asked_for() {
    let decomposed = |full: &str, rows: usize| {
        let eqns = format!(
            "b:f32[2] z:f32[3,{rows}] c:f32[2,2] = svd[full_matrices={full} compute_uv=True \
             subset_by_index=None algorithm=None] a"
        );
        lowered("a:f32[3,2]", &eqns).is_ok()
    };
    assert!(decomposed("False", 2) && decomposed("True", 3));
}

#[test]
fn reversed_loops_without_arrays_count_up() {
    let looped = |inputs: &str, result: &str, operands: &str| {
        let eqns = format!(
            "z:f32[2]{result} = scan[reverse=True length=dim \"n - 1\" jaxpr={{ lambda ; a:f32[2]{inputs}. \
             let c:f32[2] = sin a in (c,) }} num_consts=0 num_carry=1 unroll=1] {operands}"
        );
        count(&operators("a:f32[2] b:f32[n - 1,2]", &eqns), "Sub")
    };
    assert_eq!(looped("", "", "a"), 0);
    assert_eq!(looped(" b:f32[2]", "", "a b"), 2);
}

#[test]
fn running_maxima_of_inner_axes_of_symbolic_size_keep_their_shape() {
    let eqns = "z:f32[2,n,3] = cummax[axis=1 reverse=False] a";
    assert!(count(&operators("a:f32[2,n,3]", eqns), "Loop") > 0);
}

#[test]
fn the_last_axis_is_ranked_by_default() {
    let eqns = "b:f16[2,2] z:i32[2,2] = top_k[k=2] a";
    let found = operators("a:f16[2,3]", eqns);
    assert_eq!((count(&found, "TopK"), count(&found, "BitCast"), count(&found, "Cast")), (1, 1, 1));
    assert!(
        operators("a:f32[1]", "z:f32[1] = sort[dimension=0 is_stable=True num_keys=1] a")
            .is_empty()
    );
    let none = "z:f32[1,1] = select_and_scatter_add[select_prim=ge window_dimensions=(1, 2) window_strides=(1, 1) padding=((0, 0), (0, 0))] a b";
    assert_eq!(count(&operators("a:f32[1,0] b:f32[1,1]", none), "ScatterElements"), 0);
}

#[test]
fn the_state_of_a_generator_counts_its_steps() {
    let eqns = "z:u64[2] b:u32[3] = rng_bit_generator[shape=(3,) dtype=u32 algorithm=RNG_DEFAULT] {5, 7}:u64[2]";
    assert_eq!(values(eqns), [5.0, 8.0]);
}

#[test]
fn numbers_next_to_others_are_in_the_direction_of_infinities() {
    let next = |to: &str| values(&format!("z:f32[] = nextafter 1.0:f32[] {to}:f32[]"))[0];
    assert_eq!(next("-inf"), 1.0 - 2_f64.powi(-24));
    assert_eq!(next("inf"), 1.0 + 2_f64.powi(-23));
    let signs = |to: &str| {
        count(&operators("a:f32[]", &format!("z:f32[] = nextafter a {to}:f32[]")), "Sign")
    };
    assert_eq!((signs("inf"), signs("-inf"), signs("2.0")), (0, 0, 1), "the direction is known");
}

#[test]
fn nothing_is_between_the_elements_of_an_axis_of_size_one() {
    assert!(
        operators("a:f32[1]", "z:f32[1] = pad[padding_config=((0, 0, 2),)] a 0.0:f32[]").is_empty()
    );
}

/// Returns a convolution of four elements with gaps between them.
fn dilated(kernel: usize, padding: &str, result: usize) -> Graph {
    let eqns = format!(
        "z:f32[1,{result},5] = conv_general_dilated[window_strides=(1,) padding=({padding},) \
         lhs_dilation=(2,) rhs_dilation=(1,) dimension_numbers=[lhs_spec=(0, 2, 1) \
         rhs_spec=(2, 1, 0) out_spec=(0, 2, 1)] feature_group_count=1 batch_group_count=1 \
         precision=None preferred_element_type=None] a b"
    );
    lowered(&format!("a:f32[1,4,2] b:f32[{kernel},2,5]"), &eqns).unwrap()
}

#[test]
fn kernels_of_size_one_are_not_reversed() {
    let slices = |graph: &Graph| onnx::text::print(graph).matches(" = Slice").count();
    assert_eq!(slices(&dilated(1, "(0, 0)", 7)), 0);
    assert_eq!(slices(&dilated(3, "(2, 2)", 9)), 1);
}

#[test]
fn gaps_are_filled_by_a_transposed_convolution_that_adds_less_than_a_stride() {
    let text = |high: usize| onnx::text::print(&dilated(3, &format!("(2, {high})"), 7 + high));
    for (high, adds, pads) in [(2, false, false), (3, true, false), (4, false, true)] {
        let text = text(high);
        assert!(text.contains("ConvTranspose"), "{text}");
        assert_eq!(
            (text.contains("output_padding"), text.contains("= Pad ")),
            (adds, pads),
            "{text}"
        );
    }
    // Elements are cut off before and added behind.
    let text = onnx::text::print(&dilated(3, "(0, 3)", 8));
    assert!(!text.contains("ConvTranspose"), "{text}");
}

#[test]
fn sizes_are_read_where_they_are_and_computed_from_several_inputs() {
    let size = |inputs: &str, dim: &str| {
        let eqns = format!("z:i64[] = dim_as_value[dim=dim \"{dim}\"]");
        operators(inputs, &eqns)
    };
    let read = ["Shape", "Squeeze"];
    assert_eq!(size("a:f32[s] b:f32[2*s]", "2*s"), read);
    assert_eq!(size("a:f32[s,t,t - s]", "t - s"), read);
    assert_eq!(size("a:f32[s] b:f32[s + t]", "s + t"), read);
    let computed = size("a:f32[s] b:f32[t] c:f32[t - s]", "t - s");
    assert_eq!(count(&computed, "Shape"), 2, "a buffer may be longer: {computed:?}");
    assert!(
        error("a:f32[s*s]", "z:i64[] = dim_as_value[dim=dim \"s\"]")
            .contains("the size `s` cannot be computed from any single dimension of an input")
    );
}

#[test]
fn all_unknown_primitives_are_reported_at_once() {
    assert_eq!(
        error("a:f32[2]", "b:f32[2] = foo a\nz:f32[2] = bar b"),
        "no ONNX lowering for `bar`, `foo`"
    );
    let inner = "z:f32[2] = jit[jaxpr={ lambda ; a:f32[2]. let b:f32[2] = foo a in (b,) }] a";
    assert_eq!(error("a:f32[2]", inner), "no ONNX lowering for `foo`");
    let many: String = (0..60).map(|_| "_:f32[2] = foo a\n").collect();
    match lowered("a:f32[2]", &format!("{many}z:f32[2] = foo a")) {
        Err(lower::Error::MissingRules(missing)) => assert_eq!(missing.len(), 50),
        other => unreachable!("{other:?}"),
    }
}

/// Returns `true` if JAX has to expand the first equation of a program.
fn is_expanded(inputs: &str, eqns: &str) -> bool {
    let program = recording(inputs, eqns).program;
    let main: &Jaxpr = program.jaxpr(program.main.unwrap());
    let eqn = &main.eqns[0];
    let operands: Vec<_> = eqn.inputs.iter().map(|atom| main.atom_ty(atom)).collect();
    match lower::primitive(&eqn.primitive).unwrap().expands {
        Expands::Where(_, is_needed) => {
            is_needed(&Equation { program: &program, params: &eqn.params, operands: &operands })
        }
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn reductions_by_other_functions_are_expanded() {
    let reduced = |ty: &str, function: &str| {
        let eqns = format!(
            "z:{ty}[] = reduce[computation=opaque \"f\" jaxpr={{ lambda ; a:{ty}[] b:{ty}[]. let {function} }} \
             dimensions=(0,)] a b"
        );
        is_expanded(&format!("a:{ty}[3] b:{ty}[]"), &eqns)
    };
    for (ty, function) in [
        ("f32", "c:f32[] = add a b in (c,)"),
        ("f32", "c:f32[] = mul b a in (c,)"),
        ("bool", "c:bool[] = or a b in (c,)"),
        ("bool", "c:bool[] = and a b in (c,)"),
    ] {
        assert!(!reduced(ty, function), "{function}");
    }
    for (ty, function) in [
        ("f32", "c:f32[] = sub a b in (c,)"),
        ("f32", "c:f32[] = add a a in (c,)"),
        ("f32", "c:f32[] = add a b in (a,)"),
        ("f32", "c:f32[] = add a a in (a,)"),
        ("f32", "c:f32[] = add a b d:f32[] = add c b in (d,)"),
        ("i32", "c:i32[] = or a b in (c,)"),
        ("i32", "c:i32[] = and a b in (c,)"),
    ] {
        assert!(reduced(ty, function), "{function}");
    }
}

#[test]
fn scatters_of_functions_are_expanded() {
    let applies = |update: &str| {
        let scatter = scatter("scatter", "()", "(0,)", "(0,)").replace("RESULT", "[3]");
        let scatter = scatter.replace("update_jaxpr=None", &format!("update_jaxpr={update}"));
        (scatter.clone(), is_expanded("a:f32[3] b:i32[1,1] c:f32[1]", &format!("{scatter} a b c")))
    };
    assert!(!applies("None").1);
    let (replaces, is_expanded) = applies("{ lambda ; a:f32[] b:f32[]. let in (b,) }");
    assert!(!is_expanded);
    let replaced = operators("a:f32[3] b:i32[1,1] c:f32[1]", &format!("{replaces} a b c"));
    assert_eq!(count(&replaced, "ScatterND"), 1);
    let (applied, is_expanded) =
        applies("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a in (c,) }");
    assert!(is_expanded);
    let reason = error("a:f32[3] b:i32[1,1] c:f32[1]", &format!("{applied} a b c"));
    assert_eq!(reason, "`scatter`: an update that was not expanded");
    assert!(applies("{ lambda ; a:f32[] b:f32[]. let in (a,) }").1);
}

#[test]
fn choices_that_pooling_does_not_make_are_expanded() {
    let chosen = |ty: &str, dilation: &str| {
        let eqns = format!(
            "z:{ty}[1,4] = select_and_scatter_add[select_prim=ge window_dimensions=(1, 2) \
             window_strides=(1, 2) padding=((0, 0), (0, 0)) base_dilation=(1, 1) \
             window_dilation=(1, {dilation})] a b"
        );
        is_expanded(&format!("a:{ty}[1,2] b:{ty}[1,4]"), &eqns)
    };
    assert!(!chosen("f32", "1"));
    assert!(chosen("i32", "1"));
    assert!(chosen("f32", "2"));
}

#[test]
fn rows_describe_their_primitives() {
    let row = |name: &str| lower::primitive(name).unwrap();
    assert_eq!(row("sin").without_complex(), None);
    assert_eq!(row("erf").without_complex(), Some("JAX has none"));
    assert_eq!(row("top_k").without_complex(), Some("complex numbers cannot be ranked"));
    assert!(row("sin").takes_every_equation() && !row("sin").is_always_expanded());
    assert!(row("scan").takes_every_equation() && !row("scan").is_always_expanded());
    assert!(!row("scatter").takes_every_equation() && !row("scatter").is_always_expanded());
    assert!(!row("random_bits").takes_every_equation() && row("random_bits").is_always_expanded());
}

/// Applies the built-in rule twice.
#[derive(Debug)]
struct Twice;

impl ExternalRule for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn lower(&self, cx: &mut Context<'_>, inputs: &[Parts]) -> Result<Vec<Parts>, RuleError> {
        let once = cx.built_in(inputs)?;
        let node = once[0].re();
        assert!(cx.line_in("sin", node).is_some(), "the node has the name of its rule");
        assert_eq!(cx.line_in("twice", node), None);
        cx.built_in(&once)
    }
}

/// Lowers a program whose equations marked as `external` have the rule [`Twice`], and records the
/// values of its equations.
fn recorded(eqns: &str) -> lower::Lowered {
    let text = format!("{{ lambda ; a:f32[2]. let {eqns} in (z,) }}");
    let program = jaxpr::text::parse(&text, 1 << 20).unwrap().program;
    let external = [("sin".into(), Box::new(Twice) as Box<dyn ExternalRule>)].into_iter().collect();
    let options = lower::Options { external, record: true, ..lower::Options::default() };
    lower::lower(&program, &lower::Boundary::default(), &options, &mut Origins::default()).unwrap()
}

#[test]
fn external_rules_may_call_the_built_in_rule() {
    let mut names = Vec::new();
    let eqns = "b:f32[2] = sin a :: external\n z:f32[2] = cos b";
    collect(&recorded(eqns).graph, Graph::MAIN, &mut names);
    assert_eq!(names, ["Sin", "Sin", "Cos"]);
}

#[test]
fn values_of_equations_outside_of_bodies_are_recorded() {
    let lowered = recorded(
        "b:f32[2] = jit[jaxpr={ lambda ; a:f32[2]. let b:f32[2] = cos a in (b,) }] a\n\
         c:bool[] = reduce_or[axes=(0,)] {True, False}:bool[2]\n\
         z:f32[2] = cond[branches=({ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }, \
         { lambda ; a:f32[2]. let in (a,) })] c b",
    );
    let found: Vec<_> = lowered.results.0.iter().map(|eqn| (eqn.rule.0, eqn.caller)).collect();
    assert_eq!(found, [("jit", None), ("cos", Some(0)), ("reduce_or", None), ("cond", None)]);
    let graph = &lowered.graph;
    let values: Vec<_> = lowered.results.0.iter().map(|eqn| eqn.values[0].re()).collect();
    assert_eq!(values[0], values[1], "the call returns what its equation computes");
    assert_eq!(values[3], graph.block(Graph::MAIN).outputs()[0]);
}

#[test]
fn symbolic_padding_is_left_to_operators_that_define_it() {
    let padding = "max((-1*floordiv(-1*n, 2) - 1)*2 + 3 - n, 0)";
    let (low, high) =
        (format!("floordiv({padding}, 2)"), format!("{padding} - floordiv({padding}, 2)"));
    let output = "-1*floordiv(-1*n, 2)";
    let pooled = |ty: &str, dilation: usize, low: &str, high: &str| {
        let eqns = format!(
            "z:{ty}[1,{output},1] = reduce_window_max[window_dimensions=(1, 3, 1) \
             window_strides=(1, 2, 1) padding=((0, 0), (dim \"{low}\", dim \"{high}\"), (0, 0)) \
             base_dilation=(1, 1, 1) window_dilation=(1, {dilation}, 1)] a"
        );
        lowered(&format!("where \"n >= 8\"|a:{ty}[1,n,1]"), &eqns)
            .is_ok_and(|graph| onnx::text::print(&graph).contains("SAME_UPPER"))
    };
    assert!(pooled("f32", 1, &low, &high));
    assert!(!pooled("f64", 1, &low, &high), "pooling of this type is replaced by slices");
    assert!(!pooled("f32", 2, &low, &high), "the padding is that of a window without gaps");
    assert!(!pooled("f32", 1, &high, &low), "the larger half comes first");
    let eqns = "z:f32[1,n,1] = reduce_window_max[window_dimensions=(1, 3, 1) \
                window_strides=(1, 1, 1) padding=((0, 0), (1, 1), (0, 0)) base_dilation=(1, 1, 1) \
                window_dilation=(1, 1, 1)] a";
    let known = onnx::text::print(&lowered("a:f32[1,n,1]", eqns).unwrap());
    assert!(known.contains("pads = [1, 1]") || known.contains("pads: ints = [1, 1]"), "{known}");
}

#[test]
fn inputs_of_functions_are_named_after_the_parameters_of_the_first_call() {
    let named = |parameter: &str, scope: &str| {
        let text = format!(
            "{{ lambda w:f32[2] \"{parameter}\" = {{1.0, 2.0}}; a:f32[2]. let\n\
             z:f32[2] = onnx_function[call_jaxpr={{ lambda ; a:f32[2] b:f32[2]. let \
             c:f32[2] = add a b in (c,) }} name=\"F\" namespace=\"custom\" unique=False] a w :: \"{scope}\" in (z,) }}"
        );
        let recording = Recording::parse(&text, 1 << 20).unwrap();
        let Recording { program, boundary, options, .. } = &recording;
        let lowered =
            lower::lower(program, boundary, &options.lowering, &mut Origins::default()).unwrap();
        let body = lowered.graph.functions[0].body;
        let input = lowered.graph.block(body).inputs[1];
        lowered.graph.value(input).name.clone()
    };
    assert_eq!(named("blocks.0.attn.w", "blocks.0"), "F.attn.w");
    assert_eq!(named("blocks.0.attn.w", "blocks.1"), "F.0.attn.w");
    assert_eq!(named("w", "w"), "F.w");
}

#[test]
fn equal_parameters_stay_separate() {
    let text = "{ lambda a:f32[2] \"first.w\" = {1.0, 2.0} b:f32[2] \"second.w\" = {1.0, 2.0}; . let\n\
                c:f32[2] = add a b in (c,) }";
    let recording = Recording::parse(text, 1 << 20).unwrap();
    let Recording { program, boundary, options, .. } = &recording;
    let graph = lower::lower(program, boundary, &options.lowering, &mut Origins::default());
    let text = onnx::text::print(&graph.unwrap().graph);
    assert!(text.contains("first.w") && text.contains("second.w"), "{text}");
}

#[test]
fn the_last_elements_are_taken_forwards() {
    let eqns = "c:i32[m,1] = iota[dtype=i32 shape=(dim \"m\", 1) dimension=0]\n\
                d:i32[] = dim_as_value[dim=dim \"n - m\"]\ne:i32[m,1] = add c d\n";
    let gather = points("(0,)", "(1,)", "CLIP").replace("RESULT", "[m]");
    let inputs = "where \"n >= m\"|a:f32[n] b:f32[m]";
    let found = operators(inputs, &format!("{eqns}{gather} a e"));
    assert_eq!((count(&found, "Slice"), count(&found, "Gather")), (1, 0), "{found:?}");
}
