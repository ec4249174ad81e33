//! The programs of `filetests/` at every opset: they convert, or the error names the opset that
//! they need.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pipeline::{Error, Recording};
use provenance::Origins;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/filetests");

fn programs() -> Vec<(PathBuf, String)> {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let groups = entries(Path::new(FOLDER)).filter(|path| path.is_dir());
    let mut files: Vec<_> = groups
        .flat_map(|group| entries(&group))
        .map(|path| {
            (path.strip_prefix(FOLDER).unwrap().to_owned(), fs::read_to_string(&path).unwrap())
        })
        .filter(|(_, text)| !text.starts_with("// test: error"))
        .collect();
    files.sort();
    files
}

/// Returns the reason that a program does not convert at `opset`.
fn refusal(text: &str, opset: i64) -> Option<String> {
    let mut recording = Recording::parse(text, 1 << 20).unwrap();
    if recording.options.opset.is_some() {
        return None;
    }
    recording.options.opset = Some(opset);
    match recording.convert(None, &mut Origins::default()) {
        Ok(converted) => {
            assert_eq!(converted.opset, opset);
            None
        }
        Err(Error::Onnx(onnx::Error::OpsetTooOld { op, needs, .. })) => {
            Some(format!("{op} needs opset {needs}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Compares the refusals at `opset` with the snapshot: each reason with its programs.
fn check(opset: i64) {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for (path, text) in programs() {
        if let Some(reason) = refusal(&text, opset) {
            found.entry(reason).or_default().push(path.display().to_string());
        }
    }
    let mut report = String::new();
    for (reason, names) in found {
        writeln!(report, "{reason}: {}", names.join(" ")).unwrap();
    }
    insta::assert_snapshot!(format!("opset_{opset}"), report);
}

/// The oldest opset needs the most rewriting in terms of other operators.
#[test]
fn opset_9_refusals() {
    check(9);
}

/// Axes are operands from here on.
#[test]
fn opset_13_refusals() {
    check(13);
}

macro_rules! slow {
    ($($name:ident: $opset:literal,)*) => {$(
        #[test]
        #[ignore = "slow: `make test-all` runs it"]
        fn $name() {
            check($opset);
        }
    )*};
}

slow! {
    opset_10_refusals: 10,
    opset_11_refusals: 11,
    opset_12_refusals: 12,
    opset_15_refusals: 15,
    opset_17_refusals: 17,
    opset_18_refusals: 18,
    opset_21_refusals: 21,
    opset_23_refusals: 23,
    opset_28_refusals: 28,
}
