use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use onnx::Graph;
use onnx_file::proto::{DataLocation, TensorProto};
use onnx_file::{
    AUTO_INLINE, EncodeOptions, Error, Model, Placement, encode, external_locations, read_file,
};
use tensor::{DType, Tensor};

use crate::sample::{Sample, f32_type, sample};

fn model() -> Model {
    encode(&sample().graph, &EncodeOptions::new(23)).unwrap()
}

/// Returns a model with `count` initializers of `bytes` bytes each, which share their storage.
fn weights(count: usize, bytes: usize) -> Model {
    let mut s = Sample::empty();
    let tensor = Tensor::new(DType::U8, &[bytes], Arc::new(vec![0u8; bytes])).unwrap();
    for i in 0..count {
        let value = s.graph.add_constant(tensor.clone());
        s.graph.set_name(value, format!("w{i}"));
        s.op(Graph::MAIN, "Identity", &[value], &f32_type(&[]));
    }
    onnx::assign_names(&mut s.graph, &s.origins);
    encode(&s.graph, &EncodeOptions::new(23)).unwrap()
}

/// Returns the names and contents of all files in a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|e| {
            let content = if e.path().is_dir() { vec![] } else { fs::read(e.path()).unwrap() };
            (e.file_name().into_string().unwrap(), content)
        })
        .collect()
}

fn external(tensor: &TensorProto) -> Option<(String, usize, usize)> {
    let get = |key| tensor.external_data.iter().find(|e| e.key == key).map(|e| e.value.clone());
    (tensor.data_location() == DataLocation::External).then_some(())?;
    Some((get("location")?, get("offset")?.parse().ok()?, get("length")?.parse().ok()?))
}

#[test]
fn one_file_equals_to_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folders/m.onnx");
    for placement in [Placement::Auto, Placement::Inline] {
        model().save(&path, placement).unwrap();
        assert_eq!(fs::read(&path).unwrap(), model().to_bytes().unwrap());
        assert_eq!(files(path.parent().unwrap()).len(), 1);
    }
}

#[test]
fn large_tensors_are_aligned_in_the_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    model().save(&path, Placement::External).unwrap();
    let files = files(folder.path());
    assert_eq!(files.keys().collect::<Vec<_>>(), ["m.onnx", "m.onnx.data"]);
    let data = &files["m.onnx.data"];

    let (saved, original) = (read_file(&path).unwrap(), model().proto);
    let tensors = |model: &onnx_file::proto::ModelProto| {
        let mut all = model.graph.as_ref().unwrap().initializer.clone();
        let nodes = model.functions.iter().flat_map(|f| &f.node);
        all.extend(nodes.flat_map(|n| &n.attribute).filter_map(|a| a.t.as_deref().cloned()));
        all
    };
    let mut placed = Vec::new();
    for (saved, original) in tensors(&saved).iter().zip(tensors(&original)) {
        let raw = original.raw_data.unwrap();
        match external(saved) {
            Some((location, offset, length)) => {
                assert_eq!(location, "m.onnx.data");
                assert_eq!(offset % 4096, 0);
                assert!(raw.len() >= 1024 && saved.raw_data.is_none());
                assert_eq!(data[offset..offset + length], raw);
                placed.push(saved.name.clone());
            }
            None => assert!(raw.len() < 1024 && saved.raw_data == Some(raw)),
        }
    }
    assert_eq!(placed, ["dense.kernel", "dense.bias", "const/f32/300x"]);
    assert_eq!(data.len(), 12288 + 1200, "nothing behind the last tensor");
    let locations = external_locations(&path).unwrap();
    assert_eq!(locations.into_iter().collect::<Vec<_>>(), ["m.onnx.data"]);
}

#[test]
fn without_large_tensors_there_is_no_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    weights(2, 1023).save(&path, Placement::External).unwrap();
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn tensors_larger_than_the_write_buffer_are_streamed() {
    let mut model = weights(2, 3 << 20);
    let graph = model.proto.graph.as_mut().unwrap();
    graph.initializer[0].doc_string = "after the contents".to_owned();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    model.save(&path, Placement::Inline).unwrap();
    assert!(fs::read(&path).unwrap() == model.to_bytes().unwrap());
}

#[test]
fn a_single_file_larger_than_protobuf_allows_is_an_error() {
    let model = weights(17, 128 << 20);
    let Err(Error::TooLarge(bytes)) = model.to_bytes() else { panic!("2.1 GiB in one message") };
    assert!(bytes > 17 * (128 << 20) && bytes < 17 * (129 << 20));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let error = model.save(&path, Placement::Inline).unwrap_err();
    assert!(error.to_string().contains("save it with external data"), "{error}");
    assert!(files(folder.path()).is_empty());
    assert!(model.skeleton().len() < 10_000);
    const { assert!(AUTO_INLINE < 1 << 31) }
}

#[test]
fn the_skeleton_and_the_tensors_make_up_the_model() {
    let model = model();
    let mut skeleton = onnx_file::read(model.skeleton()).unwrap();
    assert_ne!(skeleton, model.proto);
    let mut tensors = model.tensors(0).map(|(_, tensor)| tensor);
    for tensor in &mut skeleton.graph.as_mut().unwrap().initializer {
        if tensor.raw_data.is_none() {
            let whole = tensors.next().unwrap();
            assert_eq!(whole.name, tensor.name);
            tensor.raw_data.clone_from(&whole.raw_data);
        }
    }
    assert_eq!(tensors.next(), None);
    drop(tensors);
    assert_eq!(skeleton, model.proto);
}

#[test]
fn a_failed_save_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    fs::write(&path, b"old").unwrap();
    fs::create_dir_all(folder.path().join("m.onnx.data/in the way")).unwrap();
    let before = files(folder.path());
    let error = model().save(&path, Placement::External).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    assert_eq!(files(folder.path()), before);

    for (path, reason) in
        [("m.onnx/below.onnx", "ot a directory"), ("m.onnx.data", "s a directory")]
    {
        let error = model().save(&folder.path().join(path), Placement::Inline).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(files(folder.path()), before);
    }
    assert!(matches!(model().save(Path::new("/"), Placement::Auto), Err(Error::Io { .. })));
}

#[cfg(unix)]
#[test]
fn devices_are_not_replaced() {
    let error = model().save(Path::new("/dev/null"), Placement::Inline).unwrap_err();
    assert_eq!(error.to_string(), "/dev/null: not a regular file");
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn replaced_files_stay_readable_while_they_are_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let data = folder.path().join("m.onnx.data");
    model().save(&path, Placement::External).unwrap();
    let old = fs::read(&data).unwrap();
    let mut open = fs::File::open(&data).unwrap();
    weights(1, 5000).save(&path, Placement::External).unwrap();
    assert_eq!(fs::read(&data).unwrap().len(), 5000);
    let mut read = Vec::new();
    open.rewind().unwrap();
    open.read_to_end(&mut read).unwrap();
    assert_eq!(read, old);
}

#[test]
fn the_data_file_is_removed_with_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    model().save(&path, Placement::External).unwrap();
    model().save(&path, Placement::Inline).unwrap();
    assert_eq!(files(folder.path()).into_keys().collect::<Vec<_>>(), ["m.onnx"]);

    for unrelated in [model().to_bytes().unwrap(), b"no model".to_vec()] {
        fs::write(&path, unrelated).unwrap();
        fs::write(folder.path().join("m.onnx.data"), b"somebody's").unwrap();
        model().save(&path, Placement::Inline).unwrap();
        assert_eq!(files(folder.path())["m.onnx.data"], b"somebody's");
    }
}

#[test]
fn a_model_that_was_read_keeps_its_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    model().save(&path, Placement::External).unwrap();
    let before = files(folder.path());
    let mut read = Model::from(read_file(&path).unwrap());
    for placement in [Placement::Inline, Placement::External, Placement::Auto] {
        read.save(&path, placement).unwrap();
        assert_eq!(files(folder.path()), before);
    }
    let graph = read.proto.graph.as_mut().unwrap();
    graph.initializer.push(weights(1, 2000).proto.graph.unwrap().initializer.remove(0));
    let error = read.save(&path, Placement::External).unwrap_err().to_string();
    assert!(error.contains("which other tensors would overwrite"), "{error}");
    assert_eq!(files(folder.path()), before);
}

#[cfg(unix)]
#[test]
fn permissions_are_the_default_or_those_of_the_replaced_file() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    fs::write(at("ordinary"), b"").unwrap();
    model().save(&at("m.onnx"), Placement::External).unwrap();
    assert_eq!([mode("m.onnx"), mode("m.onnx.data")], [mode("ordinary"); 2]);

    fs::set_permissions(at("m.onnx"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(at("m.onnx.data")).unwrap();
    model().save(&at("m.onnx"), Placement::External).unwrap();
    assert_eq!([mode("m.onnx"), mode("m.onnx.data")], [0o600; 2]);
}

/// A transposed view is written with the same bytes as a transposed copy.
#[test]
fn strided_elements_are_written_in_order() {
    let kernel: Vec<u8> =
        (0..3 * 700 * 400 * 4).map(|i: usize| (i % 251).to_le_bytes()[0]).collect();
    let kernel = Tensor::new(DType::F32, &[3, 700, 400], Arc::new(kernel)).unwrap();
    let deferred = kernel.transposed(&[2, 1, 0]).unwrap();
    let bytes = deferred.bytes().unwrap().into_owned();
    let stored = Tensor::new(DType::F32, &[400, 700, 3], Arc::new(bytes)).unwrap();
    let saved = [deferred, stored].map(|tensor| {
        let proto = model_of(tensor);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        let mut files = vec![proto.to_bytes().unwrap()];
        for placement in [Placement::Inline, Placement::External] {
            proto.save(&path, placement).unwrap();
            files.push(fs::read(&path).unwrap());
        }
        files.push(fs::read(folder.path().join("m.onnx.data")).unwrap());
        files
    });
    assert!(saved[0] == saved[1]);
    assert!(saved[0][0] == saved[0][1]);
}

/// Returns a model with one initializer.
fn model_of(tensor: Tensor) -> Model {
    let mut s = Sample::empty();
    let value = s.graph.add_constant(tensor);
    s.graph.set_name(value, "kernel".to_owned());
    s.op(Graph::MAIN, "Identity", &[value], &f32_type(&[]));
    onnx::assign_names(&mut s.graph, &s.origins);
    encode(&s.graph, &EncodeOptions::new(23)).unwrap()
}

#[test]
fn a_model_knows_its_size_and_its_large_tensors() {
    let model = model();
    assert_eq!(model.size(), model.to_bytes().unwrap().len() as u64);
    assert_eq!(format!("{model:?}"), "Model(\"sample\", 4 nodes, 4 initializers)");
    for (bytes, count) in [(1023, 0), (1024, 2)] {
        assert_eq!(weights(2, bytes).tensors(0).count(), count);
    }
    assert_eq!(weights(2, 1024).tensors(1).map(|(i, _)| i).collect::<Vec<_>>(), [1]);
}

#[test]
fn tensors_in_other_files_and_of_other_operators_stay_where_they_are() {
    let mut model = weights(1, 5000);
    let graph = model.proto.graph.as_mut().unwrap();
    let entry = |key: &str, value: &str| onnx_file::proto::StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let mut other = TensorProto { name: "other".to_owned(), ..graph.initializer[0].clone() };
    other.raw_data = None;
    other.external_data = vec![entry("location", "elsewhere.data")];
    other.set_data_location(DataLocation::External);
    let node = onnx_file::proto::NodeProto {
        op_type: "Constant".to_owned(),
        domain: "pkg.test".to_owned(),
        attribute: vec![onnx_file::proto::AttributeProto {
            t: Some(Box::new(graph.initializer[0].clone())),
            ..Default::default()
        }],
        ..Default::default()
    };
    graph.initializer.push(other.clone());
    graph.node.push(node);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    model.save(&path, Placement::External).unwrap();
    let graph = read_file(&path).unwrap().graph.unwrap();
    assert_eq!(graph.initializer[1], other);
    let kept = graph.node.last().unwrap().attribute[0].t.as_ref().unwrap();
    assert_eq!(kept.raw_data.as_ref().unwrap().len(), 5000);
}
