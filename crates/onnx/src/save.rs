//! Saves models: streamed, and all or nothing.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use prost::Message;
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::external::{Placed, move_out, same_file};
use crate::model::check_size;
use crate::proto::ModelProto;
use crate::stream::write_model;
use crate::{Error, Model, Result, external_locations, unnamed};

/// Where the contents of large tensors go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Into the model's file, unless it would be larger than [`AUTO_INLINE`].
    #[default]
    Auto,
    /// Into the model's file; an error if it would be larger than protobuf's 2 GiB.
    Inline,
    /// Into a file beside the model's, named like it with `.data` appended.
    External,
}

/// Larger models get a separate data file: 512 MiB.
pub const AUTO_INLINE: u64 = 512 << 20;

impl Placement {
    /// Whether a model that takes `bytes` as one file gets a data file.
    fn is_external(self, bytes: u64) -> bool {
        match self {
            Placement::Auto => bytes > AUTO_INLINE,
            Placement::Inline => false,
            Placement::External => true,
        }
    }
}

impl Model {
    /// Saves the model at `path`, creating missing folders.
    ///
    /// Either everything is saved or nothing changes: files are written under temporary names and
    /// renamed at the end. So a symbolic link at `path` is replaced, not followed, and tensors may
    /// be mapped from the files being replaced. A data file of the old model that is no longer
    /// referenced is removed.
    pub fn save(&self, path: &Path, placement: Placement) -> Result<()> {
        let files = Files::at(path)?;
        let external = placement.is_external(self.proto.encoded_len() as u64);
        let (proto, placed) = if external {
            let (proto, placed) = move_out(&self.proto, files.location()?)?;
            (Cow::Owned(proto), placed)
        } else {
            (Cow::Borrowed(&self.proto), Vec::new())
        };
        check_size(proto.encoded_len() as u64)?;
        files.save(&proto, &placed).map_err(|source| files.error(source))
    }
}

/// Writes a file at `path`, creating missing folders. If `content` fails, nothing changes.
pub fn replace_file(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let files = Files::at(path)?;
    let write = || {
        let old = replaceable(&files.model)?;
        fs::create_dir_all(&files.folder)?;
        files.commit(files.write(old.as_ref(), content)?.name()?, None)
    };
    write().map_err(|source| files.error(source))
}

/// The files of a model.
struct Files {
    model: PathBuf,
    folder: PathBuf,
    data: PathBuf,
    data_name: OsString,
}

impl Files {
    fn at(path: &Path) -> Result<Self> {
        let model = path.to_owned();
        let Some(name) = path.file_name() else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a file name");
            return Err(Error::Io { path: model, source });
        };
        let mut data_name = name.to_owned();
        data_name.push(".data");
        let data = path.with_file_name(&data_name);
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self { model, folder, data, data_name })
    }

    /// The name by which the model refers to its data file.
    fn location(&self) -> Result<&str> {
        self.data_name.to_str().ok_or_else(|| {
            self.error(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file name of a model with external data must be valid Unicode",
            ))
        })
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Io { path: self.model.clone(), source }
    }

    fn save(&self, proto: &ModelProto, placed: &[Placed]) -> io::Result<()> {
        let old_model = replaceable(&self.model)?;
        fs::create_dir_all(&self.folder)?;
        let data = if placed.is_empty() {
            None
        } else {
            let old = replaceable(&self.data)?.or_else(|| old_model.clone());
            let file = self.write(old.as_ref(), |file| write_data(placed, file))?;
            Some(file)
        };
        let model = self.write(old_model.as_ref(), |file| write_model(proto, file))?.name()?;
        let orphan = data.is_none() && self.leaves_orphan(model.path());
        self.commit(model, data)?;
        if orphan {
            // The model has been saved, even if the old file cannot be removed.
            drop(fs::remove_file(&self.data));
        }
        Ok(())
    }

    /// Writes a temporary file with the permissions of the file it will replace.
    fn write(
        &self,
        replaces: Option<&fs::Metadata>,
        content: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Draft<'_>> {
        let fill = |file: &mut File| {
            if let Some(replaced) = replaces {
                file.set_permissions(replaced.permissions())?;
            }
            content(file)?;
            file.sync_all()
        };
        if let Some(mut file) = unnamed::create(&self.folder) {
            fill(&mut file)?;
            return Ok(Draft::Unnamed(file, &self.folder));
        }
        // Not `tempfile_in`, whose files are readable only by their owner.
        let create = |path: &Path| File::options().write(true).create_new(true).open(path);
        let mut file = temporary().make_in(&self.folder, create)?;
        fill(file.as_file_mut())?;
        Ok(Draft::Named(file))
    }

    /// Whether the model replaced by `new` has a data file that `new` does not refer to. If the old
    /// model cannot be read, its files are kept.
    fn leaves_orphan(&self, new: &Path) -> bool {
        let refers = |model: &Path| {
            let name = self.data_name.to_str()?;
            let locations = external_locations(model).ok()?;
            Some(locations.iter().any(|location| same_file(location, name)))
        };
        self.data.is_file() && refers(&self.model) == Some(true) && refers(new) == Some(false)
    }

    /// Gives the files their names: both or none.
    fn commit(&self, model: NamedTempFile, data: Option<Draft<'_>>) -> io::Result<()> {
        let Some(data) = data else {
            model.persist(&self.model)?;
            return Ok(());
        };
        let data = data.name()?;
        let backup = self.back_up_data()?;
        if let Err(error) = data.persist(&self.data) {
            return Err(match backup {
                Some(Backup::Moved(old)) => self.restore(Some(old), error.error),
                _ => error.error,
            });
        }
        match model.persist(&self.model) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.restore(backup.map(Backup::into_path), error.error)),
        }
    }

    fn back_up_data(&self) -> io::Result<Option<Backup>> {
        // A folder has no second name, and cannot be replaced by a file anyway.
        if !fs::symlink_metadata(&self.data).is_ok_and(|found| !found.is_dir()) {
            return Ok(None);
        }
        let linked = temporary().make_in(&self.folder, |path| fs::hard_link(&self.data, path));
        if let Ok(file) = linked {
            return Ok(Some(Backup::Linked(file.into_temp_path())));
        }
        let moved = temporary().make_in(&self.folder, |path| fs::rename(&self.data, path))?;
        Ok(Some(Backup::Moved(moved.into_temp_path())))
    }

    /// Puts the old data file back after `error`.
    fn restore(&self, old: Option<TempPath>, error: io::Error) -> io::Error {
        let failed = match old {
            Some(old) => match old.persist(&self.data) {
                Ok(()) => return error,
                Err(failed) => failed,
            },
            None => {
                drop(fs::remove_file(&self.data));
                return error;
            }
        };
        let kept = failed.path.keep().unwrap_or_default();
        let text = format!("{error}; the old data file is now {}", kept.display());
        io::Error::new(error.kind(), text)
    }
}

/// A complete file that will replace another.
enum Draft<'a> {
    /// One without a name, in a folder.
    Unnamed(File, &'a Path),
    /// One with a temporary name, where unnamed files are not supported.
    Named(NamedTempFile),
}

impl Draft<'_> {
    /// Gives it a temporary name, just before the final one.
    fn name(self) -> io::Result<NamedTempFile> {
        match self {
            Draft::Named(file) => Ok(file),
            Draft::Unnamed(file, folder) => {
                let link = temporary().make_in(folder, |path| unnamed::link(&file, path))?;
                Ok(NamedTempFile::from_parts(file, link.into_temp_path()))
            }
        }
    }
}

/// The old data file under a temporary name.
enum Backup {
    /// A second name, on file systems with hard links.
    Linked(TempPath),
    /// The only name.
    Moved(TempPath),
}

impl Backup {
    fn into_path(self) -> TempPath {
        match self {
            Backup::Linked(path) | Backup::Moved(path) => path,
        }
    }
}

fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".onnx-").suffix(".tmp");
    builder
}

/// What is at `path`, if anything. It is an error if a file cannot replace it, found before
/// gigabytes are written in vain or a device is replaced by a file.
fn replaceable(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_data(placed: &[Placed], file: &mut File) -> io::Result<()> {
    let mut at = 0;
    for Placed { offset, data } in placed {
        io::copy(&mut io::Read::take(io::repeat(0), offset - at), file)?;
        data.write(file)?;
        at = offset + data.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A folder with an old model and its data, and a new pair ready to replace them.
    struct Pair {
        folder: tempfile::TempDir,
        files: Files,
        model: NamedTempFile,
        data: NamedTempFile,
    }

    impl Files {
        fn replace(&self, model: NamedTempFile, data: NamedTempFile) -> io::Result<()> {
            self.commit(model, Some(Draft::Named(data)))
        }
    }

    fn pair() -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::at(&folder.path().join("m.onnx")).unwrap();
        fs::write(&files.data, "old data").unwrap();
        let [model, data] = [&b"new model"[..], b"new data"].map(|content| {
            files.write(None, |file| file.write_all(content)).and_then(Draft::name).unwrap()
        });
        Pair { folder, files, model, data }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn both_files_are_replaced() {
        let Pair { folder, files, model, data } = pair();
        fs::write(&files.model, "old model").unwrap();
        files.replace(model, data).unwrap();
        assert_eq!(fs::read(&files.model).unwrap(), b"new model");
        assert_eq!(fs::read(&files.data).unwrap(), b"new data");
        assert_eq!(names(folder.path()), ["m.onnx", "m.onnx.data"]);
    }

    #[test]
    fn the_old_data_comes_back_when_the_model_cannot_be_replaced() {
        let Pair { folder, files, model, data } = pair();
        fs::create_dir_all(files.model.join("in the way")).unwrap();
        files.replace(model, data).unwrap_err();
        assert_eq!(fs::read(&files.data).unwrap(), b"old data");
        assert_eq!(names(folder.path()), ["m.onnx", "m.onnx.data"]);
    }

    #[test]
    fn new_data_is_removed_when_the_model_cannot_be_written() {
        let Pair { folder, files, model, data } = pair();
        fs::remove_file(&files.data).unwrap();
        fs::create_dir_all(files.model.join("in the way")).unwrap();
        files.replace(model, data).unwrap_err();
        assert_eq!(names(folder.path()), ["m.onnx"]);
    }

    #[test]
    fn data_that_cannot_be_replaced_stays() {
        let Pair { folder, files, model, data } = pair();
        fs::write(&files.model, "old model").unwrap();
        fs::remove_file(&files.data).unwrap();
        fs::create_dir_all(files.data.join("in the way")).unwrap();
        files.replace(model, data).unwrap_err();
        assert_eq!(fs::read(&files.model).unwrap(), b"old model");
        assert!(files.data.join("in the way").is_dir());
        assert_eq!(names(folder.path()), ["m.onnx", "m.onnx.data"]);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let Pair { folder, files, model, data } = pair();
        drop((model, data));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let failed = files.write(None, |file| file.write_all(b"half").and(Err(full())));
        assert_eq!(failed.err().map(|e| e.kind()), Some(io::ErrorKind::StorageFull));
        assert_eq!(names(folder.path()), ["m.onnx.data"]);
    }

    #[test]
    fn a_file_has_no_name_before_it_is_complete() {
        let Pair { folder, files, model, data } = pair();
        drop((model, data));
        if unnamed::create(folder.path()).is_none() {
            return; // this file system has no unnamed files
        }
        let content = |file: &mut File| {
            assert_eq!(names(folder.path()), ["m.onnx.data"]);
            file.write_all(b"whole")
        };
        let file = files.write(None, content).and_then(Draft::name).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"whole");
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn errors_do_not_show_temporary_names() {
        let files = Files::at(Path::new("missing folder/m.onnx")).unwrap();
        let error = files.write(None, |_| Ok(())).err().map(|e| files.error(e).to_string());
        let error = error.unwrap_or_default();
        assert!(error.starts_with("missing folder/m.onnx: "), "{error}");
        assert!(!error.contains(".tmp"), "{error}");
    }

    #[test]
    fn only_large_models_get_a_data_file_by_default() {
        assert!(!Placement::Auto.is_external(AUTO_INLINE));
        assert!(Placement::Auto.is_external(AUTO_INLINE + 1));
        assert!(!Placement::Inline.is_external(u64::MAX));
        assert!(Placement::External.is_external(1));
        assert!(check_size(i32::MAX as u64).is_ok());
        assert!(matches!(check_size(1 << 31), Err(Error::TooLarge(_))));
    }
}
