use onnx::{Attrs, Op, attrs, schema};
use tensor::DType::{self, BF16, Bool, F16, F32, F64, I16, I32, I64, U32, U64};

use crate::Target;
use crate::targets::Right;
use crate::targets::testing::rows;

fn runs(op: &'static str, opset: i64, attrs: &Attrs, types: &[DType]) -> bool {
    !rows(Target::default().kernels, op, opset, attrs, types).is_empty()
}

#[test]
fn specification_and_runtime_differ() {
    let erf = schema::find(&Op::onnx("Erf"), 18).unwrap();
    assert!(erf.types[0].allowed.contains(F64));
    assert!(!runs("Erf", 18, &attrs! {}, &[F64]));
    assert!(runs("Erf", 18, &attrs! {}, &[F16]), "casts are inserted by the runtime");
    assert!(!runs("Add", 18, &attrs! {}, &[BF16]));
    assert!(!runs("Where", 18, &attrs! {}, &[Bool, I16]));
    assert!(runs("Cast", 18, &attrs! {}, &[F32, BF16]));
    assert!(runs("Cast", 18, &attrs! {}, &[U64, I64]));
    assert!(runs("Mod", 18, &attrs! { fmod: 1 }, &[F64]));
}

#[test]
fn supported_types_may_depend_on_an_attribute() {
    assert!(runs("ScatterND", 18, &attrs! {}, &[Bool, I64]));
    assert!(runs("ScatterND", 18, &attrs! {}, &[BF16, I64]));
    assert!(!runs("ScatterND", 18, &attrs! { reduction: "add" }, &[BF16, I64]));
    assert!(runs("Gelu", 20, &attrs! { approximate: "tanh" }, &[F64]));
    assert!(!runs("Gelu", 20, &attrs! {}, &[F64]));
}

#[test]
fn some_kernels_are_not_always_right() {
    let right = |op, dtype| {
        let rows = rows(Target::default().kernels, op, 21, &Attrs::new(), &[dtype]);
        rows.first().map(|row| row.right)
    };
    assert_eq!(right("Max", I64), Some(Right::SmallNumbers));
    assert_eq!(right("Max", I32), Some(Right::Always));
    assert_eq!(right("ReduceSum", I32), Some(Right::SmallNumbers));
    assert_eq!(right("ReduceMax", F32), Some(Right::Numbers));
    assert_eq!(right("Sign", F16), Some(Right::Numbers));
    assert_eq!(right("Sign", F32), Some(Right::Always));
    assert_eq!(right("MatMul", U32), Some(Right::Terms));
    assert_eq!(right("MatMul", I32), Some(Right::Always));
}
