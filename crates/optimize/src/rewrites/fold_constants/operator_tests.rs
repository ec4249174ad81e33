//! Tests of constant folding for every operator. `operators.txt` lists programs with the results of a
//! runtime. It is written by `scripts/gen_folded_operators.py`.

use super::{REWRITE, ROUNDED};
use crate::testing::{edited, run};

/// Folds a program whose result is `r`.
fn folded(program: &str, dtype: &str) -> String {
    let graph = format!("g (float x) => ({dtype} y) {{ {program} y = Identity (r) }}");
    edited(&graph, |edit| run(edit, [&REWRITE, &ROUNDED]).unwrap()).0
}

#[test]
fn results_match_a_runtime() {
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
