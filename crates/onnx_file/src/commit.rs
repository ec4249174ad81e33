//! Moves the files of a model to their final names.
//!
//! A model and its data cannot be renamed atomically. The new data therefore gets a temporary name
//! first, and an interim model refers to it by that name. Once the data also has its final name,
//! the final model replaces the interim one. At every moment, even if the process is killed, the
//! model at its path refers to its own data.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use crate::external::same_file;
use crate::external_locations;
use crate::folder_lock::lock;
use crate::proto::ModelProto;
use crate::save::{Draft, Files, is_temporary, remove_abandoned, temporary, with_suffix};
use crate::stream::write_model;

/// A function that returns the model with references to a data file of the given name.
pub(crate) type Interim<'a> = dyn Fn(&str) -> io::Result<ModelProto> + 'a;

impl Files {
    /// Replaces the model, and its data if present: both or neither. A data file that only the old
    /// model refers to is removed.
    pub(crate) fn commit(
        &self,
        model: Draft<'_>,
        data: Option<Draft<'_>>,
        interim: &Interim<'_>,
    ) -> io::Result<()> {
        let lock = lock(&self.folder);
        if lock.is_some() {
            remove_abandoned(&self.folder);
        }
        let model = model.name()?;
        let unused = self.unused(model.path(), data.is_some());
        match data {
            None => drop(model.persist(&self.model)?),
            Some(data) => self.commit_pair(model, data, interim)?,
        }
        for path in unused {
            // The model has been saved even if an old file cannot be removed.
            drop(fs::remove_file(path));
        }
        Ok(())
    }

    fn commit_pair(
        &self,
        model: NamedTempFile,
        data: Draft<'_>,
        interim: &Interim<'_>,
    ) -> io::Result<()> {
        let data = data.name()?.into_temp_path();
        step("the data has a name");
        let name = data.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let interim = interim(name)?;
        let permissions = fs::metadata(model.path()).ok();
        let interim = self.write(permissions.as_ref(), |file| write_model(&interim, file))?;
        let interim = interim.name()?;
        let copy = |from: &Path, to: &Path| fs::copy(from, to).map(drop);
        let model_before = second_name(&self.model, &self.folder, copy)?;
        let mut old = Old { model: model_before, data: None, has_new_data: false };
        step("the old model has a second name");
        interim.persist(&self.model)?;
        step("the interim model is in place");
        match self.finish(model, &data, &mut old) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.restore(old, data, error)),
        }
    }

    /// Gives the data and the model their final names.
    fn finish(&self, model: NamedTempFile, data: &Path, old: &mut Old) -> io::Result<()> {
        // The old data is no longer needed, so it may also be renamed.
        old.data = second_name(&self.data, &self.folder, |from, to| fs::rename(from, to))?;
        step("the old data has a second name");
        match temporary().make_in(&self.folder, |path| fs::hard_link(data, path)) {
            Ok(link) => drop(link.into_temp_path().persist(&self.data)?),
            // Without hard links, the interim model cannot be loaded until the final one replaces
            // it.
            Err(_) => fs::rename(data, &self.data)?,
        }
        old.has_new_data = true;
        step("the data is in place");
        model.persist(&self.model)?;
        step("the model is in place");
        Ok(())
    }

    /// Restores the old files after `error`. The data comes first, because the interim model does
    /// not refer to it.
    fn restore(&self, old: Old, data: TempPath, error: io::Error) -> io::Error {
        let files = [
            ("data file", &self.data, old.data, old.has_new_data),
            ("model", &self.model, old.model, true),
        ];
        for (what, path, old, is_new) in files {
            match old.map(|old| old.persist(path)) {
                None if is_new => drop(fs::remove_file(path)),
                None | Some(Ok(())) => {}
                Some(Err(failed)) => {
                    let kept = kept(failed.path, path);
                    // The interim model still needs its data.
                    drop(data.keep());
                    let told = format!("{error}; the old {what} is now {}", kept.display());
                    return io::Error::new(error.kind(), told);
                }
            }
        }
        error
    }

    /// Returns the data files that the old model refers to and the model at `new` does not. If the
    /// old model cannot be read, its files are kept.
    fn unused(&self, new: &Path, has_data: bool) -> Vec<PathBuf> {
        let mut unused = Vec::new();
        let Ok(old) = external_locations(&self.model) else { return unused };
        // Hardly any model has a data file.
        if old.is_empty() {
            return unused;
        }
        let Ok(new) = external_locations(new) else { return unused };
        // A process was killed after it had put an interim model in place.
        let interim = old.iter().filter(|name| is_temporary(name) && !new.contains(*name));
        unused.extend(interim.map(|name| self.folder.join(name)));
        if let Some(name) = self.data_name.to_str().filter(|_| !has_data) {
            let refers = |names: &BTreeSet<String>| names.iter().any(|at| same_file(at, name));
            if self.data.is_file() && refers(&old) && !refers(&new) {
                unused.push(self.data.clone());
            }
        }
        unused
    }
}

/// The replaced files, under temporary names.
struct Old {
    model: Option<TempPath>,
    data: Option<TempPath>,
    has_new_data: bool,
}

/// Keeps the old file for `path` under a name that later exports do not remove as abandoned, and
/// returns that name.
fn kept(old: TempPath, path: &Path) -> PathBuf {
    let kept = old.keep().unwrap_or_default();
    let name = with_suffix(path, ".old");
    if !name.exists() && fs::rename(&kept, &name).is_ok() { name } else { kept }
}

/// Gives the file at `path`, if it exists, a second name in `folder`. Uses `otherwise` where hard
/// links are not supported.
fn second_name(
    path: &Path,
    folder: &Path,
    otherwise: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<Option<TempPath>> {
    // A folder cannot have a second name, and a file cannot replace it anyway.
    if !fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Ok(None);
    }
    let linked = temporary().make_in(folder, |name| fs::hard_link(path, name));
    let found = match linked {
        Ok(link) => link,
        Err(_) => temporary().make_in(folder, |name| otherwise(path, name))?,
    };
    Ok(Some(found.into_temp_path()))
}

#[cfg(not(test))]
fn step(_: &str) {}

#[cfg(test)]
use tests::step;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;
    use crate::saving_tests::{abort_at, model_of, names};
    use crate::{Model, Placement, read_file};

    /// The environment variable with the step at which the process is killed.
    const KILLED: &str = "ONNX_TEST_KILLED_AT";
    /// The environment variable with the folder to save to.
    const FOLDER: &str = "ONNX_TEST_FOLDER";

    const STEPS: [&str; 6] = [
        "the data has a name",
        "the old model has a second name",
        "the interim model is in place",
        "the old data has a second name",
        "the data is in place",
        "the model is in place",
    ];

    pub(super) fn step(name: &str) {
        assert!(STEPS.contains(&name));
        abort_at(name, KILLED);
    }

    /// Returns a model whose only weight consists of one byte, repeated.
    fn model(byte: u8, len: usize) -> Model {
        model_of(&[(&format!("weight {byte}"), vec![byte; len])])
    }

    /// Returns the byte in the name of a model's weight, and the bytes of its data.
    fn read(path: &Path) -> io::Result<(u8, Vec<u8>)> {
        let model = read_file(path).map_err(io::Error::other)?;
        let tensor = &model.graph.unwrap().initializer[0];
        let byte = tensor.name.strip_prefix("weight ").unwrap().parse().unwrap();
        let get = |key: &str| tensor.external_data.iter().find(|e| e.key == key).unwrap();
        let data = fs::read(path.with_file_name(&get("location").value))?;
        let offset: usize = get("offset").value.parse().unwrap();
        let length: usize = get("length").value.parse().unwrap();
        Ok((byte, data[offset..offset + length].to_vec()))
    }

    fn assert_pair(path: &Path) -> u8 {
        let (byte, data) = read(path).unwrap();
        assert!(data.iter().all(|found| *found == byte), "the data of another model");
        byte
    }

    /// Runs in a child process.
    #[test]
    fn child_saves_to_the_given_folder() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let path = PathBuf::from(folder).join("m.onnx");
            model(2, 5000).save(&path, Placement::External).unwrap();
        }
    }

    #[test]
    fn a_killed_process_leaves_a_matching_pair() {
        for is_new in [false, true] {
            for (at, step) in STEPS.iter().enumerate() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("m.onnx");
                if !is_new {
                    model(1, 3000).save(&path, Placement::External).unwrap();
                }
                let status = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "commit::tests::child_saves_to_the_given_folder"])
                    .env(FOLDER, folder.path())
                    .env(KILLED, step)
                    .output()
                    .unwrap();
                assert!(!status.status.success(), "{step}");
                let replaced = at >= 2;
                match is_new && !replaced {
                    true => assert!(!path.exists(), "{step}"),
                    false => assert_eq!(assert_pair(&path), if replaced { 2 } else { 1 }, "{step}"),
                }
                // Another export into the folder does not change the pair.
                let other = folder.path().join("other.onnx");
                model(4, 2000).save(&other, Placement::External).unwrap();
                if !is_new || replaced {
                    assert_pair(&path);
                }
                // The next save succeeds, and no other files remain.
                model(3, 4000).save(&path, Placement::External).unwrap();
                assert_eq!((assert_pair(&path), assert_pair(&other)), (3, 4), "{step}");
                let expected = ["m.onnx", "m.onnx.data", "other.onnx", "other.onnx.data"];
                assert_eq!(names(folder.path()), expected, "{step}");
            }
        }
    }

    #[test]
    fn concurrent_saves_leave_a_matching_pair() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        model(0, 3000).save(&path, Placement::External).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let done = &done;
            let writers: Vec<_> = (1..4)
                .map(|byte| {
                    let path = &path;
                    scope.spawn(move || {
                        for round in 0..20 {
                            let len = 3000 + 1000 * usize::from(byte) + round;
                            model(byte, len).save(path, Placement::External).unwrap();
                        }
                    })
                })
                .collect();
            let path = &path;
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    read_file(path).unwrap(); // the file is a complete model at every moment
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_pair(&path);
        assert_eq!(names(folder.path()), ["m.onnx", "m.onnx.data"]);
    }

    #[test]
    fn both_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        for byte in 1..4 {
            model(byte, 3000).save(&path, Placement::External).unwrap();
            assert_eq!(assert_pair(&path), byte);
            assert_eq!(names(folder.path()), ["m.onnx", "m.onnx.data"]);
        }
    }

    /// Replaces a model and its data.
    fn replace(files: &Files) -> io::Result<()> {
        let draft = |content: &'static [u8]| files.write(None, |file| file.write_all(content));
        let (model, data) = (draft(b"new model")?, draft(b"new data")?);
        files.commit(model, Some(data), &|_| Ok(ModelProto::default()))
    }

    #[test]
    fn nothing_changes_if_the_model_cannot_be_replaced() {
        for has_data in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let files = Files::at(&folder.path().join("m.onnx")).unwrap();
            fs::create_dir_all(files.model.join("in the way")).unwrap();
            if has_data {
                fs::write(&files.data, "old data").unwrap();
            }
            let before = names(folder.path());
            replace(&files).unwrap_err();
            assert_eq!(names(folder.path()), before);
            assert!(!has_data || fs::read(&files.data).unwrap() == b"old data");
        }
    }

    #[test]
    fn nothing_changes_if_the_data_cannot_be_replaced() {
        for has_model in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let files = Files::at(&folder.path().join("m.onnx")).unwrap();
            fs::create_dir_all(files.data.join("in the way")).unwrap();
            if has_model {
                fs::write(&files.model, "old model").unwrap();
            }
            let before = names(folder.path());
            replace(&files).unwrap_err();
            assert_eq!(names(folder.path()), before);
            assert!(!has_model || fs::read(&files.model).unwrap() == b"old model");
            assert!(files.data.join("in the way").is_dir());
        }
    }

    #[test]
    fn a_cancelled_save_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        model(1, 3000).save(&path, Placement::External).unwrap();
        let new = model(2, 20 << 20);
        let mut last = 0;
        for placement in [Placement::External, Placement::Inline] {
            for stop in 1.. {
                let mut asked = 0;
                let saved = new.save_while(&path, placement, &mut |_| {
                    asked += 1;
                    if asked == stop { Err(io::Error::other("stopped")) } else { Ok(()) }
                });
                last = asked;
                match saved {
                    Ok(()) => break,
                    Err(error) => assert!(error.to_string().ends_with("stopped"), "{error}"),
                }
                assert_eq!(assert_pair(&path), 1);
                assert_eq!(names(folder.path()), ["m.onnx", "m.onnx.data"]);
            }
            assert!(last >= 6, "asked only {last} times");
            model(1, 3000).save(&path, Placement::External).unwrap();
        }
    }
}
