use std::fs;
use std::path::{Path, PathBuf};
use tensor::DType::{BF16, F16, F32};

use provenance::Origins;

use super::{ALL, Target};
use crate::Forms;
use crate::testing::graph;
use crate::weights::{Weights, shrink};

#[test]
fn targets_are_sorted_by_name() {
    assert!(ALL.is_sorted_by_key(|spec| spec.name));
    for target in Target::all() {
        assert_eq!(Target::find(target.name), Some(target));
    }
    assert_eq!(Target::find("nothing"), None);
}

#[test]
fn opsets_are_in_order() {
    for target in Target::all() {
        let opsets = [target.lowest_opset, target.opset, target.newest_opset];
        assert!(opsets.is_sorted(), "{target}: lowest, usual and newest opset are {opsets:?}");
    }
}

/// Runtimes that are not targets.
const OTHERS: &[&str] = &["coreml", "tflite", "tvm", "wasm", "webassembly", "webnn"];

/// Crates that read messages and profiles of runtimes, or pass the names of targets on.
const READERS: &[&str] = &["cli", "python"];

/// Returns the source files in `folder`, except those of targets.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !path.ends_with("optimize/src/targets"));
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.collect()
}

/// Returns `true` if `text` contains `word`, but not as a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

#[test]
fn only_folders_of_targets_name_runtimes() {
    let targets = Target::all().map(|target| target.name).filter(|name| *name != "any");
    let names: Vec<&str> = targets.chain(OTHERS.iter().copied()).collect();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path());
    let files = crates
        .filter(|path| !READERS.iter().any(|reader| path.ends_with(reader)))
        .flat_map(|path| sources(&path.join("src")));
    let mut count = 0;
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (line, text) in (1..).zip(text.to_lowercase().lines()) {
            let name = names.iter().find(|name| has_word(text, name));
            assert!(name.is_none(), "{} names {name:?} in line {line}", file.display());
        }
        count += 1;
    }
    assert!(count > 300, "{count} files");
}

#[test]
fn columns_have_scales_where_there_are_no_blocks() {
    let product = format!(
        "g (float[2,32] x) => (float[2,32] y) <float[32,32] w = {{{}}}> {{ y = MatMul (x, w) }}",
        vec!["1"; 1024].join(", ")
    );
    let stored = |format: &str, target: &str, opset: i64| {
        let mut origins = Origins::default();
        let mut graph = graph(&product, &mut origins);
        let forms = Forms { target: Target::find(target).unwrap(), ..Forms::auto(opset) };
        let weights = Weights::parse(&format!("w={format}")).unwrap();
        shrink(&mut graph, &mut origins, &weights, opset, &forms).map_err(|e| e.to_string())?;
        onnx::verify(&graph, Some(opset)).unwrap();
        Ok::<String, String>(onnx::text::print(&graph))
    };
    let by_column = "DequantizeLinear <axis: int = 1> (w, \"w/scale\"";
    for (format, target, opset) in
        [("int8", "tract", 23), ("int8", "onnxruntime", 18), ("int8:column", "onnxruntime", 23)]
    {
        let text = stored(format, target, opset).unwrap();
        assert!(text.contains(&format!("{by_column})")), "{text}");
        assert!(text.contains("float[32] \"w/scale\""), "{text}");
    }
    assert!(stored("uint8", "iree", 22).unwrap().contains(by_column));
    assert!(stored("int8", "openvino", 23).unwrap().contains("block_size: int = 32"));
    assert!(stored("int8:64", "openvino", 23).unwrap_err().contains("does not read such blocks"));
    assert!(stored("int8", "onnxruntime", 23).unwrap().contains("block_size: int = 32"));
    assert!(stored("int4", "tract", 23).unwrap_err().contains("does not read such blocks"));
    assert!(stored("int8:32", "onnxruntime", 18).unwrap_err().contains("need opset 21"));
}

#[test]
fn contributed_operators_have_types() {
    let cuda = Target::find("cuda").unwrap();
    assert_eq!(cuda.contributed_types("MatMulNBits"), [F32, F16, BF16]);
    assert_eq!(cuda.contributed_types("GroupQueryAttention"), [F16, BF16]);
    assert!(cuda.contributed_types("Gelu").is_empty());
    assert_eq!(format!("{cuda:?}"), "Target(cuda)");
}
