use super::*;
use crate::{Attrs, attrs};
use rustc_hash::FxHashSet;
use tensor::DType;

fn runs(op: &'static str, opset: i64, attrs: Attrs, types: &[DType]) -> bool {
    let schema = find(&Op::onnx(op), opset).unwrap();
    let variant: Vec<_> = attrs.into_iter().collect();
    schema
        .rows(&variant, Runtime::OnnxRuntime)
        .any(|row| row.types().zip(types).all(|(set, d)| set.contains(*d)))
}

#[test]
fn the_table_is_sorted_and_versions_do_not_overlap() {
    for pair in table::TABLE.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        assert!((a.name, a.until) < (b.name, b.since), "{} {}", a.name, b.since);
    }
    for schema in table::TABLE {
        assert!(schema.attrs.is_sorted_by_key(|a| a.name), "{}", schema.name);
        assert!((OLDEST..=NEWEST).contains(&schema.until), "{}", schema.name);
    }
}

#[test]
fn runtimes_run_only_allowed_types() {
    for schema in table::TABLE {
        for row in schema.runs {
            assert_eq!(row.types().len(), schema.types.len(), "{}", schema.name);
            let mut pairs = row.types().zip(schema.types);
            let subset = pairs.all(|(types, c)| types.is_subset(c.allowed));
            assert!(subset, "{} {}", schema.name, schema.since);
        }
    }
}

#[test]
fn the_version_follows_the_opset() {
    let since = |op, opset| find(&Op::onnx(op), opset).map(|s| s.since);
    assert_eq!(since("Add", 18), Some(14));
    assert_eq!(since("Gelu", 19), None);
    assert_eq!(since("Gelu", 20), Some(20));
    assert_eq!(since("Cast", 18), Some(13));
    assert_eq!(since("Cast", 26), Some(25));
    assert_eq!(since("NoSuchOp", 20), None);
    assert_eq!(since("GroupNormalization", 20), None, "deprecated as it was then");
    assert_eq!(find(&Op { domain: "other", name: "Add" }, 20).map(|s| s.since), None);
    assert_eq!(versions(&Op::onnx("Reshape")).len(), 7);
}

#[test]
fn specification_and_runtime_differ() {
    use DType::{BF16, Bool, F16, F32, F64, I16, I64, U64};
    let erf = find(&Op::onnx("Erf"), 18).unwrap();
    assert!(erf.types[0].allowed.contains(F64));
    assert!(!runs("Erf", 18, attrs! {}, &[F64]));
    assert!(runs("Erf", 18, attrs! {}, &[F16]), "casts are inserted by the runtime");
    assert!(!runs("Add", 18, attrs! {}, &[BF16]));
    assert!(!runs("Where", 18, attrs! {}, &[Bool, I16]));
    assert!(runs("Cast", 18, attrs! {}, &[F32, BF16]));
    assert!(runs("Cast", 18, attrs! {}, &[U64, I64]));
    assert!(runs("Mod", 18, attrs! { fmod: 1 }, &[F64]));
}

#[test]
fn supported_types_may_depend_on_an_attribute() {
    use DType::{BF16, Bool, F64, I64};
    assert!(runs("ScatterND", 18, attrs! {}, &[Bool, I64]));
    assert!(runs("ScatterND", 18, attrs! {}, &[BF16, I64]));
    assert!(!runs("ScatterND", 18, attrs! { reduction: "add" }, &[BF16, I64]));
    assert!(runs("Gelu", 20, attrs! { approximate: "tanh" }, &[F64]));
    assert!(!runs("Gelu", 20, attrs! {}, &[F64]));
}

#[test]
fn some_kernels_are_not_always_right() {
    let right = |op, dtype| {
        let schema = find(&Op::onnx(op), 21).unwrap();
        let has = |row: &&Row| row.types().next().is_some_and(|set| set.contains(dtype));
        schema.rows(&[], Runtime::OnnxRuntime).find(has).map(|row| row.right)
    };
    assert_eq!(right("Max", DType::I64), Some(Right::SmallNumbers));
    assert_eq!(right("Max", DType::I32), Some(Right::Always));
    assert_eq!(right("ReduceSum", DType::I32), Some(Right::SmallNumbers));
    assert_eq!(right("ReduceMax", DType::F32), Some(Right::Numbers));
    assert_eq!(right("Sign", DType::F16), Some(Right::Numbers));
    assert_eq!(right("Sign", DType::F32), Some(Right::Always));
    assert_eq!(right("MatMul", DType::U32), Some(Right::Terms));
    assert_eq!(right("MatMul", DType::I32), Some(Right::Always));
}

#[test]
fn variadic_parameters_repeat() {
    let concat = find(&Op::onnx("Concat"), 20).unwrap();
    assert_eq!(concat.input(5).unwrap().name, "inputs");
    assert!(find(&Op::onnx("Add"), 20).unwrap().input(2).is_none());
    assert_eq!(concat.attr("axis").map(|a| (a.kind, a.required)), Some((AttrKind::Int, true)));
    assert!(concat.attr("axes").is_none());
}

#[test]
fn sets_of_types_print_as_a_list() {
    let set: Types = [DType::F64, DType::I8].into_iter().collect();
    assert_eq!(set.to_string(), "i8, f64");
    assert_eq!(set.single(), None);
    assert_eq!(Types::of(DType::C128).single(), Some(DType::C128));
}

#[test]
fn web_tables_are_sorted_and_lack_types() {
    for table in [web::WASM, web::WEBGPU, web::GPU] {
        assert!(table.is_sorted_by_key(|runs| (runs.op, runs.versions)));
        let versions = |runs: &'static Runs| runs.versions.iter().map(move |since| (runs, *since));
        let mut seen = FxHashSet::default();
        for (runs, since) in table.iter().flat_map(versions) {
            assert!(seen.insert((runs.op, since)), "{} {since} is there twice", runs.op);
            let schema = find(&Op::onnx(runs.op), since.max(OLDEST)).unwrap();
            assert_eq!(schema.since, since, "{}", runs.op);
            for row in runs.rows {
                assert_eq!(row.types().len(), schema.types.len(), "{}", runs.op);
            }
        }
    }
    let add = find(&Op::onnx("Add"), 21).unwrap();
    let takes = |runtime, dtype| {
        add.rows(&[], runtime).any(|row| row.types().all(|set| set.contains(dtype)))
    };
    assert!(takes(Runtime::Web, DType::F64));
    assert!(!takes(Runtime::WebGpu, DType::F64));
    let on_gpu = |op, opset| {
        let schema = find(&Op::onnx(op), opset).unwrap();
        schema.rows_on_gpu(&[]).any(|row| row.types().all(|set| set.contains(DType::F32)))
    };
    assert!(on_gpu("Sin", 21));
    assert!(!on_gpu("Sin", 23), "its kernel is bound to the version of opset 7");
}
