//! Gives the files of a model their names.
//!
//! A model and its data cannot be renamed at once. So the new data has a name of its own at first,
//! and an interim model refers to it by that name. When the data also has its usual name, the model
//! that refers to it by that name follows. At every moment, also if the process is killed, the model
//! at its path refers to data that belongs to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use crate::external::same_file;
use crate::external_locations;
use crate::folder_lock::lock;
use crate::proto::ModelProto;
use crate::save::{Draft, Files, is_temporary, remove_abandoned, temporary};
use crate::stream::write_model;

/// The model with a data file of another name.
pub(crate) type Interim<'a> = dyn Fn(&str) -> io::Result<ModelProto> + 'a;

impl Files {
    /// Replaces the model, and its data if there is any: both or none. A data file that only the
    /// old model refers to is removed.
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
            // The model has been saved, even if an old file cannot be removed.
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

    /// Gives the data and the model their usual names.
    fn finish(&self, model: NamedTempFile, data: &Path, old: &mut Old) -> io::Result<()> {
        // Nobody needs the old data any more, so it may also lose its name.
        old.data = second_name(&self.data, &self.folder, |from, to| fs::rename(from, to))?;
        step("the old data has a second name");
        match temporary().make_in(&self.folder, |path| fs::hard_link(data, path)) {
            Ok(link) => drop(link.into_temp_path().persist(&self.data)?),
            // Without a second name, nobody can load the interim model from here on.
            Err(_) => fs::rename(data, &self.data)?,
        }
        old.has_new_data = true;
        step("the data is in place");
        model.persist(&self.model)?;
        step("the model is in place");
        Ok(())
    }

    /// Puts the old files back after `error`: the data first, which the interim model does not need.
    fn restore(&self, old: Old, data: TempPath, error: io::Error) -> io::Error {
        let told = |what: &str, kept: &Path| {
            io::Error::new(
                error.kind(),
                format!("{error}; the old {what} is now {}", kept.display()),
            )
        };
        match old.data {
            None if old.has_new_data => drop(fs::remove_file(&self.data)),
            None => {}
            Some(old) => {
                if let Err(failed) = old.persist(&self.data) {
                    let kept = kept(failed.path, &self.data);
                    // The interim model still needs its data.
                    drop(data.keep());
                    return told("data file", &kept);
                }
            }
        }
        match old.model {
            None => drop(fs::remove_file(&self.model)),
            Some(old) => {
                if let Err(failed) = old.persist(&self.model) {
                    let kept = kept(failed.path, &self.model);
                    drop(data.keep());
                    return told("model", &kept);
                }
            }
        }
        error
    }

    /// The data files that the old model refers to and the one at `new` does not. If the old model
    /// cannot be read, its files are kept.
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
            let refers = |mut names: std::collections::btree_set::Iter<'_, String>| {
                names.any(|location| same_file(location, name))
            };
            if self.data.is_file() && refers(old.iter()) && !refers(new.iter()) {
                unused.push(self.data.clone());
            }
        }
        unused
    }
}

/// What was replaced, under other names.
struct Old {
    model: Option<TempPath>,
    data: Option<TempPath>,
    has_new_data: bool,
}

/// Keeps the old file for `path` under a name that no later export takes for abandoned, and returns
/// that name.
fn kept(old: TempPath, path: &Path) -> PathBuf {
    let kept = old.keep().unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    let name = PathBuf::from(name);
    if !name.exists() && fs::rename(&kept, &name).is_ok() { name } else { kept }
}

/// A second name for the file at `path`, if there is one; `otherwise` where there are no hard links.
fn second_name(
    path: &Path,
    folder: &Path,
    otherwise: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<Option<TempPath>> {
    // A folder has no second name, and cannot be replaced by a file anyway.
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

    /// Names the step at which a process is to be killed.
    const KILLED: &str = "ONNX_TEST_KILLED_AT";
    /// The folder that it saves to.
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

    /// A model whose only weight consists of one byte, repeated.
    fn model(byte: u8, len: usize) -> Model {
        model_of(&[(&format!("weight {byte}"), vec![byte; len])])
    }

    /// The byte that a model names and all bytes of its data, as a reader sees them.
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

    /// Runs in another process.
    #[test]
    fn save_in_a_folder_that_is_given() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let path = PathBuf::from(folder).join("m.onnx");
            model(2, 5000).save(&path, Placement::External).unwrap();
        }
    }

    #[test]
    fn a_killed_process_leaves_a_pair() {
        for is_new in [false, true] {
            for (at, step) in STEPS.iter().enumerate() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("m.onnx");
                if !is_new {
                    model(1, 3000).save(&path, Placement::External).unwrap();
                }
                let status = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "commit::tests::save_in_a_folder_that_is_given"])
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
                // Another export into the folder leaves the pair alone.
                let other = folder.path().join("other.onnx");
                model(4, 2000).save(&other, Placement::External).unwrap();
                if !is_new || replaced {
                    assert_pair(&path);
                }
                // The next one is saved as usual, and nothing else is left.
                model(3, 4000).save(&path, Placement::External).unwrap();
                assert_eq!((assert_pair(&path), assert_pair(&other)), (3, 4), "{step}");
                let expected = ["m.onnx", "m.onnx.data", "other.onnx", "other.onnx.data"];
                assert_eq!(names(folder.path()), expected, "{step}");
            }
        }
    }

    #[test]
    fn whoever_saves_the_data_saves_the_model() {
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
                    read_file(path).unwrap(); // there is a whole model all the time
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

    /// A new pair, ready to replace an old one.
    fn replace(files: &Files) -> io::Result<()> {
        let draft = |content: &'static [u8]| files.write(None, |file| file.write_all(content));
        let (model, data) = (draft(b"new model")?, draft(b"new data")?);
        files.commit(model, Some(data), &|_| Ok(ModelProto::default()))
    }

    #[test]
    fn nothing_changes_where_the_model_cannot_be_replaced() {
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
    fn nothing_changes_where_the_data_cannot_be_replaced() {
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
    fn a_save_that_is_stopped_changes_nothing() {
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
