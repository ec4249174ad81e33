//! Every operator that is evaluated, on constants: `operators.txt` holds one program after the other, each
//! with the result of a runtime. `scripts/gen_folded_operators.py` writes it.

use super::{REWRITE, ROUNDED};
use crate::runner;
use crate::testing::edited;

/// A program whose result is `r`, with all constants folded.
fn folded(program: &str, dtype: &str) -> String {
    let graph = format!("g (float x) => ({dtype} y) {{ {program} y = Identity (r) }}");
    edited(&graph, |edit| runner::run(edit, "fold", [&REWRITE, &ROUNDED]).unwrap()).0
}

#[test]
fn results_match_those_of_a_runtime() {
    let cases: Vec<&str> = include_str!("operators.txt").trim_end().split("\n\n").collect();
    assert!(cases.len() > 150);
    for case in cases {
        let (program, result) = case.rsplit_once('\n').unwrap();
        let dtype = result.split_whitespace().next().unwrap();
        let found = folded(program, dtype);
        let expected = folded(&format!("r = Constant <value = {result}> ()"), dtype);
        assert!(found == expected, "{program}\ngot:\n{found}\nexpected:\n{expected}");
    }
}
