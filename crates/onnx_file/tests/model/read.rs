use onnx_file::{EncodeOptions, Error, encode, external_locations, read, read_file};

use crate::sample::sample;

#[test]
fn files_that_are_not_models_are_refused() {
    let cases: [(&[u8], &str); 5] = [
        (b"", "it is empty"),
        (b"\x08\x0a", "it has no graph"),
        (b"<!DOCTYPE html>", "failed to decode"),
        (b"\x08\x0a\x3a\x00", "it has no operator set"),
        (b"\x08\x03\x3a\x00", "it has no operator set"),
    ];
    for (bytes, reason) in cases {
        let error = read(bytes.to_vec()).unwrap_err();
        assert!(matches!(error, Error::Read(_)));
        let text = error.to_string();
        assert!(text.starts_with("not an ONNX model, or damaged: "), "{text}");
        assert!(text.contains(reason), "{text}");
    }
    // The first versions of the format had no operator sets.
    assert!(read(b"\x08\x02\x3a\x00".to_vec()).is_ok());
}

/// Nothing is required after the operator sets, so truncation there cannot be detected.
#[test]
fn a_truncated_model_is_refused() {
    let mut model = encode(&sample().graph, &EncodeOptions::new(23)).unwrap();
    model.proto.functions.clear();
    model.proto.opset_import.truncate(1);
    let bytes = model.to_bytes().unwrap();
    assert!(read(bytes.clone()).is_ok());
    for len in 0..bytes.len() {
        assert!(read(bytes[..len].to_vec()).is_err(), "{len} of {} bytes", bytes.len());
    }
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing.onnx");
    for error in [read_file(&path).unwrap_err(), external_locations(&path).unwrap_err()] {
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}

#[test]
fn locations_of_damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let bytes = encode(&sample().graph, &EncodeOptions::new(23)).unwrap().to_bytes();
    let bytes = bytes.unwrap();
    std::fs::write(&path, &bytes).unwrap();
    assert!(external_locations(&path).unwrap().is_empty());
    for damaged in [&bytes[..bytes.len() / 2], b"plain text, not protobuf"] {
        std::fs::write(&path, damaged).unwrap();
        assert!(external_locations(&path).is_err());
    }
}
