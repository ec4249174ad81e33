//! The programs of `filetests/` at every opset: they convert, or the error says which opset they need.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

/// What is refused at `opset`: reasons, and the programs of each.
fn refused(opset: i64) -> String {
    let (programs, next) = (programs(), AtomicUsize::new(0));
    let found = Mutex::new(BTreeMap::<String, Vec<String>>::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((path, text)) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(reason) = refusal(text, opset) {
                        let name = path.display().to_string();
                        found.lock().unwrap().entry(reason).or_default().push(name);
                    }
                }
            });
        }
    });
    let mut report = String::new();
    for (reason, mut names) in found.into_inner().unwrap() {
        names.sort();
        writeln!(report, "{reason}: {}", names.join(" ")).unwrap();
    }
    report
}

#[test]
fn what_is_refused() {
    for opset in [13, 15, 17, 18, 21, 23, 28] {
        insta::assert_snapshot!(format!("opset_{opset}"), refused(opset));
    }
}
