use super::*;
use crate::attrs;
use tensor::DType;

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
    assert_eq!(versions(&Op::onnx("Reshape")).len(), 8);
}

#[test]
fn an_attribute_may_decide_between_kernels() {
    let variant =
        |op, attrs: crate::Attrs| find(&Op::onnx(op), 20).unwrap().variant(&attrs).to_owned();
    assert_eq!(variant("Gelu", attrs! { approximate: "tanh" }), "tanh");
    assert_eq!(variant("Gelu", attrs! {}), "none");
    assert_eq!(variant("Mod", attrs! { fmod: 1 }), "1");
    assert_eq!(variant("Add", attrs! {}), "");
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
