use std::process::Command;

use super::*;
use crate::proto::TensorProto;
use crate::read_file;
use crate::saving_tests::{abort_at, model_of, names};

/// The environment variable with the step at which the process is killed.
const KILLED: &str = "ONNX_TEST_SET_KILLED_AT";
/// The environment variable with the folder to save to.
const FOLDER: &str = "ONNX_TEST_SET_FOLDER";

const STEPS: [&str; 3] = [
    "the new folder is complete",
    "the other files are in the new folder",
    "the folders have changed places",
];

pub(super) fn step(name: &str) {
    assert!(STEPS.contains(&name));
    abort_at(name, KILLED);
}

/// Saves a set whose weights consist of one byte, repeated.
fn save(folder: &Path, byte: u8, len: usize) -> Result<()> {
    let prefill = model_of(&[("shared", vec![byte; len]), ("prefill", vec![byte; len + 1])]);
    let decode = model_of(&[("shared", vec![byte; len]), ("decode", vec![byte; len + 2])]);
    let models = vec![("prefill.onnx", &prefill), ("decode.onnx", &decode)];
    let config = [byte];
    let files = vec![("config.json", config.as_slice())];
    Set { models, data: "weights.data", files }.save_while(folder, &mut |_| Ok(()))
}

/// Returns the weights of a model, with their offsets in the data file.
fn weights(path: &Path) -> Vec<(String, usize, Vec<u8>)> {
    let model = read_file(path).unwrap();
    let read = |tensor: &TensorProto| {
        let get = |key: &str| &tensor.external_data.iter().find(|e| e.key == key).unwrap().value;
        let data = fs::read(path.with_file_name(get("location"))).unwrap();
        let offset: usize = get("offset").parse().unwrap();
        let length: usize = get("length").parse().unwrap();
        (tensor.name.clone(), offset, data[offset..offset + length].to_vec())
    };
    model.graph.unwrap().initializer.iter().map(read).collect()
}

/// Returns the byte that all files of the set consist of.
fn byte_of(folder: &Path) -> u8 {
    let [byte] = fs::read(folder.join("config.json")).unwrap()[..] else { panic!("no byte") };
    for name in ["prefill.onnx", "decode.onnx"] {
        for (weight, _, bytes) in weights(&folder.join(name)) {
            assert!(bytes.iter().all(|b| *b == byte), "{weight} of {name} is of another set");
        }
    }
    byte
}

const ALL: [&str; 4] = ["config.json", "decode.onnx", "prefill.onnx", "weights.data"];

#[test]
fn shared_weights_are_written_once() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("new/set");
    save(&folder, 1, 5000).unwrap();
    assert_eq!(names(&folder), ALL);
    let (prefill, decode) =
        (weights(&folder.join("prefill.onnx")), weights(&folder.join("decode.onnx")));
    assert_eq!(prefill[0], decode[0]);
    assert_ne!(prefill[1].1, decode[1].1);
    assert_eq!(fs::metadata(folder.join("weights.data")).unwrap().len(), 16384 + 5002);
}

#[test]
fn equal_weights_with_different_names_are_stored_separately() {
    let parent = tempfile::tempdir().unwrap();
    let one = model_of(&[("a", vec![0; 2000]), ("b", vec![0; 2000])]);
    let other = model_of(&[("a", vec![1; 2000]), ("b", vec![0; 2000])]);
    let set = Set { models: vec![("1", &one), ("2", &other)], data: "data", files: vec![] };
    set.save_while(parent.path(), &mut |_| Ok(())).unwrap();
    let places = |name| weights(&parent.path().join(name)).into_iter().map(|w| w.1).collect();
    let (one, other): (Vec<_>, Vec<_>) = (places("1"), places("2"));
    assert_eq!((one, other), (vec![0, 4096], vec![8192, 4096]));
}

/// Runs in a child process.
#[test]
fn child_saves_to_the_given_folder() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        save(Path::new(&folder), 2, 5000).unwrap();
    }
}

#[test]
fn a_killed_process_leaves_the_old_set_or_the_new_one() {
    for is_new in [false, true] {
        for step in STEPS.iter().filter(|step| !is_new || !step.contains("other files")) {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("set");
            if !is_new {
                save(&folder, 1, 3000).unwrap();
                fs::write(folder.join("notes"), "mine").unwrap();
            }
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "set::tests::child_saves_to_the_given_folder"])
                .env(FOLDER, &folder)
                .env(KILLED, step)
                .output()
                .unwrap();
            assert!(!status.status.success(), "{step}");
            let replaced = *step == STEPS[2];
            match is_new && !replaced {
                true => assert!(!folder.exists(), "{step}"),
                false => assert_eq!(byte_of(&folder), if replaced { 2 } else { 1 }, "{step}"),
            }
            // The next save succeeds, and nothing remains of the killed one.
            save(&folder, 3, 4000).unwrap();
            assert_eq!(byte_of(&folder), 3);
            assert_eq!(is_new, fs::read(folder.join("notes")).is_err());
            assert_eq!(names(parent.path()), ["set"]);
        }
    }
}

#[test]
fn other_files_are_preserved() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("set");
    fs::create_dir_all(folder.join("notes/more")).unwrap();
    fs::write(folder.join("notes/more/a"), "a").unwrap();
    fs::write(folder.join("b"), "b").unwrap();
    for byte in 1..3 {
        save(&folder, byte, 3000).unwrap();
        assert_eq!(byte_of(&folder), byte);
        assert_eq!(fs::read(folder.join("notes/more/a")).unwrap(), b"a");
        assert_eq!(fs::read(folder.join("b")).unwrap(), b"b");
        assert_eq!(names(parent.path()), ["set"]);
    }
}

#[test]
fn no_other_model_loses_its_weights() {
    let parent = tempfile::tempdir().unwrap();
    save(parent.path(), 1, 3000).unwrap();
    let one = model_of(&[("shared", vec![2; 4000])]);
    let set = Set { models: vec![("decode.onnx", &one)], data: "weights.data", files: Vec::new() };
    let error = set.save_while(parent.path(), &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("`prefill.onnx` in it is not replaced"), "{error}");
    assert_eq!(byte_of(parent.path()), 1);
}

#[test]
fn a_cancelled_save_changes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("set");
    save(&folder, 1, 3000).unwrap();
    let large = model_of(&[("shared", vec![2; 20 << 20])]);
    let models = vec![("prefill.onnx", &large), ("decode.onnx", &large)];
    let set = Set { models, data: "weights.data", files: Vec::new() };
    for stop in 1..100 {
        let mut asked = 0;
        let saved = set.save_while(&folder, &mut |_| {
            asked += 1;
            if asked == stop { Err(io::Error::other("stopped")) } else { Ok(()) }
        });
        let Err(error) = saved else {
            assert!(stop > 6, "asked only {asked} times");
            return;
        };
        assert!(error.to_string().ends_with("stopped"), "{error}");
        assert_eq!(byte_of(&folder), 1);
        assert_eq!(names(&folder), ALL);
        assert_eq!(names(parent.path()), ["set"]);
    }
}

#[test]
fn concurrent_saves_leave_one_complete_set() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("set");
    std::thread::scope(|scope| {
        for byte in 1..4 {
            let folder = &folder;
            scope.spawn(move || {
                for round in 0..10 {
                    save(folder, byte, 3000 + 1000 * usize::from(byte) + round).unwrap();
                }
            });
        }
    });
    byte_of(&folder);
    assert_eq!(names(&folder), ALL);
    assert_eq!(names(parent.path()), ["set"]);
}
