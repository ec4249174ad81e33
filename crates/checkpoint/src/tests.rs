use tensor::DType;

use super::*;

fn header(json: &str, elements: &[u8]) -> Vec<u8> {
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(json.as_bytes());
    file.extend_from_slice(elements);
    file
}

fn one(name: &str, value: f32) -> Vec<u8> {
    let json = format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
    header(&json, &value.to_le_bytes())
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn value(checkpoint: &Checkpoint, name: &str) -> f64 {
    match checkpoint.get(name) {
        Some(Stored::Tensor(tensor)) => tensor.to_f64s().unwrap()[0],
        other => panic!("{other:?}"),
    }
}

/// Opens the checkpoint and returns the error message, without the path.
fn problem(files: &[(&str, &[u8])], open: &str) -> String {
    let folder = folder(files);
    let error = Checkpoint::open(&folder.path().join(open)).unwrap_err().to_string();
    error
        .rsplit_once(": ")
        .map_or(error.clone(), |_| error.replace(&format!("{}", folder.path().display()), ""))
}

#[test]
fn every_element_type_is_known() {
    for (name, dtype) in [
        ("BOOL", DType::Bool),
        ("U8", DType::U8),
        ("I8", DType::I8),
        ("U16", DType::U16),
        ("I16", DType::I16),
        ("U32", DType::U32),
        ("I32", DType::I32),
        ("U64", DType::U64),
        ("I64", DType::I64),
        ("F8_E4M3", DType::F8E4M3FN),
        ("F8_E5M2", DType::F8E5M2),
        ("F8_E8M0", DType::F8E8M0FNU),
        ("F16", DType::F16),
        ("BF16", DType::BF16),
        ("F32", DType::F32),
        ("F64", DType::F64),
    ] {
        let size = dtype.byte_len(1);
        let json = format!(r#"{{"w":{{"dtype":"{name}","shape":[1],"data_offsets":[0,{size}]}}}}"#);
        let folder = folder(&[("m.safetensors", &header(&json, &vec![1; size]))]);
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        let Some(Stored::Tensor(w)) = checkpoint.get("w") else { panic!("{name}") };
        assert_eq!(w.dtype(), dtype);
    }
}

#[test]
fn a_file_is_read() {
    let json = r#"{"__metadata__":{"format":"pt"},
        "w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},
        "b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},
        "none":{"dtype":"I64","shape":[0,3],"data_offsets":[10,10]},
        "odd":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[10,13]}}"#;
    let elements = [[1.5f32.to_le_bytes(), 2.5f32.to_le_bytes()].concat(), vec![0, 0x40, 1, 2, 3]];
    let file = header(json, &elements.concat());
    let folder = folder(&[("m.safetensors", &file)]);
    for path in [folder.path().to_owned(), folder.path().join("m.safetensors")] {
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["b", "none", "odd", "w"]);
        let Some(Stored::Tensor(w)) = checkpoint.get("w") else { panic!() };
        assert_eq!((w.shape(), w.to_f64s().unwrap()), ([2, 1].as_slice(), vec![1.5, 2.5]));
        assert_eq!(value(&checkpoint, "b"), 2.0);
        assert!(
            matches!(checkpoint.get("odd"), Some(Stored::Unknown(dtype)) if dtype == "F6_E2M3")
        );
        assert!(checkpoint.get("c").is_none());
    }
}

#[test]
fn several_files_are_one_checkpoint() {
    let index =
        br#"{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#;
    let (one_, two) = (one("a", 1.0), one("b", 2.0));
    let folder = folder(&[
        ("model.safetensors.index.json", index),
        ("1.safetensors", &one_),
        ("2.safetensors", &two),
        ("other.safetensors", &one("a", 3.0)),
    ]);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!((value(&checkpoint, "a"), value(&checkpoint, "b")), (1.0, 2.0));
}

#[test]
fn problems_of_several_files_are_reported() {
    let (a, b) = (one("a", 1.0), one("b", 2.0));
    let index = |text: &'static str| ("m.safetensors.index.json", text.as_bytes());
    assert_eq!(
        problem(&[("1.safetensors", &a), ("2.safetensors", &a)], ""),
        "/2.safetensors: `a` is in another file of the checkpoint, too"
    );
    assert_eq!(
        problem(&[index(r#"{"weight_map":{"c":"1.safetensors"}}"#), ("1.safetensors", &b)], ""),
        "/m.safetensors.index.json: `c` should be in `1.safetensors`, but is not"
    );
    for outside in [r#"{"weight_map":{"c":"../x"}}"#, r#"{"weight_map":{"c":"/etc/passwd"}}"#] {
        let said = problem(&[index(outside)], "m.safetensors.index.json");
        assert!(said.ends_with("is not the name of a file in the same folder"), "{said}");
    }
    assert!(problem(&[index("{}")], "").contains("not an index of safetensors"));
    assert!(problem(&[], "").ends_with("there are no safetensors files in this folder"));
    assert!(problem(&[], "none.safetensors").contains("No such file"));
}

#[test]
#[cfg(unix)]
fn a_pipe_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["m.safetensors", "m.safetensors.index.json"] {
        let path = folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // Nobody writes to it, so opening it would never end.
        let error = Checkpoint::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("not a regular file"), "{error}");
    }
}

/// Four bytes from the start.
const F32: &str = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;

#[test]
fn hostile_files_are_errors() {
    let of_bytes = |text: &str, len| header(&format!(r#"{{"w":{text}}}"#), &vec![0; len]);
    let entry = |text: &str| of_bytes(text, 8);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "too short"),
        (vec![1, 2, 3], "too short"),
        (u64::MAX.to_le_bytes().to_vec(), "longer than the file"),
        (header("{", &[]), "header is wrong"),
        (header("[1]", &[]), "header is wrong"),
        (
            of_bytes(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#, 4),
            "needs 8 bytes, but got 4",
        ),
        (entry(r#"{"dtype":"F32","shape":[3],"data_offsets":[0,12]}"#), "outside of the file"),
        (entry(r#"{"dtype":"F32","shape":[1],"data_offsets":[4,0]}"#), "outside of the file"),
        (entry(r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}"#), "invalid value"),
        (
            of_bytes(r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}"#, 0),
            "too large",
        ),
        (
            entry(r#"{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}"#),
            "outside of the file",
        ),
        (entry(r#"{"dtype":"F32","shape":[1]}"#), "missing field"),
        (header(&"[".repeat(100_000), &[]), "header is wrong"),
        (
            header(&format!(r#"{{"w":{F32},"w":{F32}}}"#), &[0; 8]),
            "header is wrong: `w` is there twice",
        ),
        (entry(r#"{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}"#), "duplicate"),
        (header(&format!(r#"{{"v":{F32},"w":{F32}}}"#), &[0; 8]), "`v` and `w` share bytes"),
        (
            header(
                &format!(r#"{{"v":{F32},"w":{{"dtype":"I8","shape":[6],"data_offsets":[2,8]}}}}"#),
                &[0; 8],
            ),
            "`v` and `w` share bytes",
        ),
        (entry(F32), "4 bytes of elements belong to no tensor, from byte 4"),
        (
            entry(r#"{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#),
            "4 bytes of elements belong to no tensor, from byte 0",
        ),
        (
            header(
                &format!(r#"{{"v":{F32},"w":{{"dtype":"I8","shape":[2],"data_offsets":[6,8]}}}}"#),
                &[0; 8],
            ),
            "2 bytes of elements belong to no tensor, from byte 4",
        ),
    ];
    for (file, said) in cases {
        let problem = problem(&[("m.safetensors", &file)], "m.safetensors");
        assert!(problem.contains(said), "{problem}");
    }
}

#[test]
fn tensors_may_follow_each_other() {
    let json = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
        "b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let elements = [1f32, 2.0].map(f32::to_le_bytes).concat();
    let folder = folder(&[("m.safetensors", &header(json, &elements))]);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!((value(&checkpoint, "a"), value(&checkpoint, "b")), (1.0, 2.0));
    let Some(Stored::Tensor(a)) = checkpoint.get("a") else { panic!() };
    assert!(a.is_known() && !a.is_in_memory());
}

#[test]
fn a_header_is_an_object() {
    let found = problem(&[("m.safetensors", &header("[]", &[]))], "m.safetensors");
    assert!(found.contains("expected an object"), "{found}");
}
