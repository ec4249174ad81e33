//! Saves several models that share one data file, as a folder.
//!
//! The new folder is written beside the old one, under a temporary name, and then exchanged with it
//! atomically. A reader therefore finds either the complete old set or the complete new one, even
//! if the process is killed. Other files in the old folder are preserved.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prost::Message;

use crate::error::invalid;
use crate::external::{move_out_of_all, same_file};
use crate::folder_lock::{lock, try_lock};
use crate::model::check_size;
use crate::save::{GoOn, Saving, Watched, with_suffix, write_data, write_message};
use crate::{Error, Model, Result, external_locations};

/// Models that share their weights, and the files that accompany them. All names are file names.
#[derive(Debug)]
pub struct Set<'a> {
    /// The models.
    pub models: Vec<(&'a str, &'a Model)>,
    /// The name of the file for large weights. It is not written if no weight is large.
    pub data: &'a str,
    /// Other files.
    pub files: Vec<(&'a str, &'a [u8])>,
}

impl Set<'_> {
    /// Replaces `folder` with one that contains the files of this set, and the existing files with
    /// other names.
    ///
    /// `go_on` is called from time to time, and for the last time just before the folder is
    /// replaced. If it fails, nothing changes.
    pub fn save_while(&self, folder: &Path, go_on: &mut GoOn<'_>) -> Result<()> {
        let (models, placed) =
            move_out_of_all(self.models.iter().map(|(_, model)| &model.proto), self.data)?;
        for model in &models {
            check_size(model.encoded_len() as u64)?;
        }
        let mut save = || {
            let target = Target::at(folder)?;
            self.check(&target)?;
            let new = Staged::beside(&target)?;
            if !placed.is_empty() {
                new.write(self.data, |file| write_data(&placed, Watched::new(file, go_on)))?;
            }
            for ((name, _), model) in self.models.iter().zip(&models) {
                new.write(name, |file| write_message(model, Watched::new(file, go_on)))?;
            }
            for (name, content) in &self.files {
                new.write(name, |file| file.write_all(content))?;
            }
            step("the new folder is complete");
            go_on(Saving::Complete)?;
            self.replace(&target, new)
        };
        save().map_err(Error::at(folder))
    }

    fn replace(&self, target: &Target, new: Staged) -> io::Result<()> {
        let _lock = lock(&target.parent);
        if !target.path.try_exists()? {
            fs::rename(new.folder.path(), &target.path)?;
            step("the folders have changed places");
            let _ = new.folder.keep();
            return Ok(());
        }
        // Another process may have written to the folder in the meantime.
        self.check(target)?;
        carry_over(&target.path, new.folder.path(), &self.own_names())?;
        step("the other files are in the new folder");
        exchange(new.folder.path(), &target.path)?;
        step("the folders have changed places");
        Ok(()) // the old folder is dropped under the temporary name
    }

    fn own_names(&self) -> BTreeSet<&OsStr> {
        let models = self.models.iter().map(|(name, _)| *name);
        let files = self.files.iter().map(|(name, _)| *name);
        models.chain(files).chain([self.data]).map(OsStr::new).collect()
    }

    /// Fails if the folder cannot be replaced, or if it contains another model that would lose its
    /// data.
    fn check(&self, target: &Target) -> io::Result<()> {
        let entries = match fs::read_dir(&target.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if std::env::current_dir().is_ok_and(|here| here.starts_with(&target.path)) {
            let reason = "the folder is replaced as a whole, so it cannot be the working directory";
            return Err(invalid(reason));
        }
        let own = self.own_names();
        for entry in entries {
            let name = entry?.file_name();
            let path = target.path.join(&name);
            if own.contains(name.as_os_str()) {
                if path.is_dir() {
                    let reason = format!("`{}` in it is a folder", name.display());
                    return Err(io::Error::new(io::ErrorKind::IsADirectory, reason));
                }
            } else if path.extension().is_some_and(|end| end == "onnx")
                && external_locations(&path)
                    .is_ok_and(|found| found.iter().any(|place| same_file(place, self.data)))
            {
                let reason = format!(
                    "`{}` in it is not replaced, but its weights are in `{}`, which is; remove it first",
                    name.display(),
                    self.data
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
            }
        }
        Ok(())
    }
}

/// The folder that a set replaces.
struct Target {
    path: PathBuf,
    parent: PathBuf,
    name: OsString,
}

impl Target {
    /// Resolves `path`, following symbolic links, and creates missing parent folders.
    fn at(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(invalid("not the name of a folder"));
        };
        fs::create_dir_all(parent)?;
        Ok(Self { parent: parent.to_owned(), name: name.to_owned(), path })
    }

    /// Returns the prefix of the temporary names of folders that will replace this one.
    fn prefix(&self) -> OsString {
        let mut prefix = OsString::from(".");
        prefix.push(&self.name);
        prefix.push("-");
        prefix
    }
}

const SUFFIX: &str = ".onnx-set.tmp";

/// A folder under a temporary name, removed with its contents when dropped.
struct Staged {
    folder: tempfile::TempDir,
    /// Shows other processes that the folder is still being written.
    _lock: Option<File>,
}

impl Staged {
    fn beside(target: &Target) -> io::Result<Self> {
        // Keeps other processes from removing the folder as abandoned before it has its own lock.
        let _lock = lock(&target.parent);
        remove_abandoned(target);
        let mut name = tempfile::Builder::new();
        let prefix = target.prefix();
        name.prefix(&prefix).suffix(SUFFIX);
        // By default, only the owner may read the folder.
        #[cfg(unix)]
        name.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let folder = name.tempdir_in(&target.parent)?;
        if let Ok(old) = fs::metadata(&target.path) {
            fs::set_permissions(folder.path(), old.permissions())?;
        }
        let lock = lock(folder.path());
        Ok(Self { folder, _lock: lock })
    }

    fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.folder.path().join(name);
        let mut file = File::options().write(true).create_new(true).open(path)?;
        content(&mut file)?;
        file.sync_all()
    }
}

/// Removes the temporary folders of processes that were killed.
fn remove_abandoned(target: &Target) {
    let prefix = target.prefix();
    for entry in fs::read_dir(&target.parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        let ours = bytes.starts_with(prefix.as_encoded_bytes())
            && bytes.ends_with(SUFFIX.as_bytes())
            && !bytes[prefix.len()..bytes.len() - SUFFIX.len()].contains(&b'-');
        if ours && try_lock(&entry.path()).is_some() {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Links or copies the contents of a folder into another, except for the names in `except`.
fn carry_over(from: &Path, to: &Path, except: &BTreeSet<&OsStr>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if except.contains(name.as_os_str()) {
            continue;
        }
        let target = to.join(&name);
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
            carry_over(&path, &target, &BTreeSet::new())?;
        } else if fs::hard_link(&path, &target).is_err() {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Exchanges two folders, atomically if the operating system supports it.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    let aside = with_suffix(one, ".old");
    fs::rename(other, &aside)?;
    if let Err(error) = fs::rename(one, other) {
        fs::rename(&aside, other)?;
        return Err(error);
    }
    fs::rename(&aside, one)
}

#[cfg(not(test))]
fn step(_: &str) {}

#[cfg(test)]
use tests::step;

#[cfg(test)]
mod tests;
