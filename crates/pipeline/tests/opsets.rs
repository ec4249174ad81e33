//! The programs of `filetests/` at every opset: they convert, or the error says which opset they need.

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

/// Why a program does not convert at `opset`.
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

/// Compares what is refused at `opset` with the snapshot: reasons, and the programs of each.
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

/// The oldest one has the most to put in terms of other operators.
#[test]
fn what_opset_13_refuses() {
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
    what_opset_15_refuses: 15,
    what_opset_17_refuses: 17,
    what_opset_18_refuses: 18,
    what_opset_21_refuses: 21,
    what_opset_23_refuses: 23,
    what_opset_28_refuses: 28,
}
