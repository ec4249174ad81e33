use provenance::{Origins, Stage};
use tensor::{DType, Dim, Type};

use super::*;
use crate::{Graph, Source};

/// Returns the error of a formula of a matrix and a condition.
fn error(body: impl for<'f> FnOnce([Num<'f>; 2]) -> [Num<'f>; 1]) -> String {
    let (mut graph, mut origins) = (Graph::new("g"), Origins::default());
    let matrix = Type::new(DType::F32, [Dim::Known(2), Dim::Known(3)]);
    let x = graph.add_input(Graph::MAIN, matrix);
    let condition = graph.add_input(Graph::MAIN, Type::new(DType::Bool, []));
    let source = Source::Equation { call: None, scope: Origins::ROOT };
    let rule = ("test", Stage::Lower);
    let mut builder = Builder::new(&mut graph, &mut origins, rule, source, Graph::MAIN);
    formulas(&mut builder, [x, condition], body).unwrap_err().to_string()
}

#[test]
fn the_first_error_of_a_formula_is_kept() {
    let wrong = error(|[x, c]| {
        assert_eq!(format!("{x:?}"), format!("{:?}", x.id()));
        [x.matmul(x) + c.atan()]
    });
    assert_eq!(wrong, "MatMul: sizes 3 and 2 differ in f32[2,3] and f32[2,3]");
    let constant = error(|[_, c]| [c.integer(1)]);
    assert_eq!(constant, "invalid graph: a constant cannot be of type bool");
}

#[test]
fn a_builder_returns_what_it_emitted_for_before() {
    let (mut graph, mut origins) = (Graph::new("g"), Origins::default());
    let source = Source::Equation { call: None, scope: Origins::ROOT };
    let rule = ("test", Stage::Lower);
    let mut builder = Builder::new(&mut graph, &mut origins, rule, source, Graph::MAIN);
    let site = Location::caller().into();
    assert_eq!(builder.set_site(Some(site)), None);
    assert_eq!(builder.set_site(None), Some(site));
    assert_eq!(builder.set_rule("other", Stage::Custom), rule);
}
