//! Saves models atomically, streaming their contents.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prost::Message;
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::commit::Interim;
use crate::error::invalid;
use crate::external::{Placed, move_out};
use crate::folder_lock::{hold, lock, try_lock};
use crate::model::check_size;
use crate::proto::ModelProto;
use crate::reserve::reserve;
use crate::stream::write_model;
use crate::{Error, Model, Result, external_locations, unnamed};

/// The destination of the contents of large tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The model's file, unless it would be larger than [`AUTO_INLINE`].
    #[default]
    Auto,
    /// The model's file. Saving fails if it would be larger than protobuf's 2 GiB.
    Inline,
    /// A file beside the model's, with the same name and `.data` appended.
    External,
}

/// The progress of saving a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// This many more bytes have been written to a file that has no name yet.
    Wrote(u64),
    /// Everything has been written, and the first file is about to get its name.
    Complete,
}

/// A callback that receives the progress of saving. It cancels the save by returning an error.
pub type GoOn<'a> = dyn FnMut(Saving) -> io::Result<()> + 'a;

/// The size above which models get a separate data file: 512 MiB.
pub const AUTO_INLINE: u64 = 512 << 20;

impl Placement {
    /// Returns `true` if a model that takes `bytes` in one file gets a data file.
    fn is_external(self, bytes: u64) -> bool {
        match self {
            Placement::Auto => bytes > AUTO_INLINE,
            Placement::Inline => false,
            Placement::External => true,
        }
    }
}

impl Model {
    /// Returns the number of bytes that the model takes, including its weights.
    pub fn size(&self) -> u64 {
        self.proto.encoded_len() as u64
    }

    /// Saves the model at `path`, creating missing folders.
    ///
    /// Either everything is saved or nothing changes: files are written under temporary names and
    /// renamed at the end. Therefore tensors may be mapped from the files being replaced. A data file
    /// of the old model that is no longer referenced is removed, and so are the files that killed
    /// processes left in the folder.
    ///
    /// A symbolic link at `path` is followed. If it leads to another folder, the model cannot have a
    /// data file, because runtimes would look for it beside the link.
    pub fn save(&self, path: &Path, placement: Placement) -> Result<()> {
        self.save_while(path, placement, &mut |_| Ok(()))
    }

    /// Saves the model like [`Model::save`], but calls `go_on` from time to time, and for the last
    /// time just before the first file gets its name. If it fails, nothing changes.
    pub fn save_while(
        &self,
        path: &Path,
        placement: Placement,
        go_on: &mut GoOn<'_>,
    ) -> Result<()> {
        let files = Files::at(path)?;
        let external = placement.is_external(self.size());
        let (proto, placed) = if external {
            files.check_data_is_beside(path)?;
            let (proto, placed) = move_out(&self.proto, files.location()?)?;
            (Cow::Owned(proto), placed)
        } else {
            (Cow::Borrowed(&self.proto), Vec::new())
        };
        check_size(proto.encoded_len() as u64)?;
        let interim = |location: &str| {
            move_out(&self.proto, location).map(|(proto, _)| proto).map_err(io::Error::other)
        };
        let saved = files.save(&proto, &placed, &interim, go_on);
        saved.map_err(|source| files.error(source))
    }
}

/// Writes a file at `path`, creating missing folders. If `content` fails, nothing changes.
pub fn replace_file(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let files = Files::at(path)?;
    let write = || {
        let old = replaceable(&files.model)?;
        fs::create_dir_all(&files.folder)?;
        let draft = files.write(old.as_ref(), content)?;
        let lock = lock(&files.folder);
        if lock.is_some() {
            remove_abandoned(&files.folder);
        }
        let draft = draft.name()?;
        draft.persist(&files.model).map(drop).map_err(|error| error.error)
    };
    write().map_err(|source| files.error(source))
}

/// A complete file that gets its final name when another file has been saved. Until then, it has the
/// name that [`next_name`] returns, so it can be found if the process is killed in between.
#[derive(Debug)]
pub struct Pending {
    /// The file under its interim name. It is removed unless it gets its final name.
    next: TempPath,
    path: PathBuf,
    target: PathBuf,
}

impl Pending {
    /// Writes a file that will be at `path`, creating missing folders.
    pub fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<Self> {
        let failed = Error::at(path);
        let target = followed(path).map_err(&failed)?;
        replaceable(&target).map_err(&failed)?;
        let next = next_name(&target);
        replace_file(&next, content).map_err(|error| match error {
            Error::Io { source, .. } => failed(source),
            other => other,
        })?;
        let next = TempPath::try_from_path(next).map_err(&failed)?;
        Ok(Self { next, path: path.to_owned(), target })
    }

    /// Gives the file its final name.
    pub fn finish(self) -> Result<()> {
        let Self { next, path, target } = self;
        next.persist(target).map_err(|error| Error::Io { path, source: error.error })
    }
}

/// Returns the name of a file before it replaces the one at `path`.
pub fn next_name(path: &Path) -> PathBuf {
    with_suffix(path, ".next")
}

/// Appends `suffix` to the name of a file.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The largest number of symbolic links that are followed, as on Linux.
const LINKS: usize = 40;

/// Returns the file that a symbolic link at `path` leads to, which need not exist.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Ok(path);
        }
        // A relative link starts in its own folder; an absolute one replaces the path.
        let link = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(invalid("too many symbolic links"))
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// The paths of a model's files.
pub(crate) struct Files {
    pub(crate) model: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) data_name: OsString,
}

impl Files {
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let model = followed(path).map_err(Error::at(path))?;
        let Some(name) = model.file_name() else {
            return Err(Error::at(&model)(invalid("not a file name")));
        };
        let mut data_name = name.to_owned();
        data_name.push(".data");
        let data = model.with_file_name(&data_name);
        let folder = folder_of(&model).to_owned();
        Ok(Self { model, folder, data, data_name })
    }

    /// Returns the name of the data file, as the model refers to it.
    fn location(&self) -> Result<&str> {
        let problem = "the file name of a model with external data must be valid Unicode";
        self.data_name.to_str().ok_or_else(|| self.error(invalid(problem)))
    }

    /// Fails if `path` is a link to another folder, because runtimes look for the data beside the
    /// link.
    fn check_data_is_beside(&self, path: &Path) -> Result<()> {
        let folder = |path: &Path| fs::canonicalize(folder_of(path));
        match (folder(path), folder(&self.model)) {
            (Ok(own), Ok(other)) if own != other => {
                let target = self.model.display();
                let problem = format!(
                    "it is a symbolic link to another folder, and runtimes look for the data file \
                     beside the link; save the model at {target}"
                );
                Err(Error::at(path)(invalid(problem)))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, source: io::Error) -> Error {
        Error::at(&self.model)(source)
    }

    fn save(
        &self,
        proto: &ModelProto,
        placed: &[Placed],
        interim: &Interim<'_>,
        go_on: &mut GoOn<'_>,
    ) -> io::Result<()> {
        let old_model = replaceable(&self.model)?;
        fs::create_dir_all(&self.folder)?;
        let data = if placed.is_empty() {
            None
        } else {
            let old = replaceable(&self.data)?.or_else(|| old_model.clone());
            let write = |file: &mut File| write_data(placed, Watched::new(file, go_on));
            Some(self.write(old.as_ref(), write)?)
        };
        let write = |file: &mut File| write_message(proto, Watched::new(file, go_on));
        let model = self.write(old_model.as_ref(), write)?;
        go_on(Saving::Complete)?;
        self.commit(model, data, interim)
    }

    /// Writes a temporary file with the permissions of the file it will replace.
    pub(crate) fn write(
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
        // `tempfile_in` would make files that only their owner can read.
        let create = |path: &Path| File::options().write(true).create_new(true).open(path);
        let mut file = loop {
            let file = temporary().make_in(&self.folder, create)?;
            hold(file.as_file());
            // Another process may have removed it as abandoned before it was locked.
            if file.path().exists() {
                break file;
            }
        };
        fill(file.as_file_mut())?;
        Ok(Draft::Named(file))
    }
}

/// A complete file that will replace another.
pub(crate) enum Draft<'a> {
    /// An unnamed file, and the folder that contains it.
    Unnamed(File, &'a Path),
    /// A file with a temporary name, where unnamed files are not supported.
    Named(NamedTempFile),
}

impl Draft<'_> {
    /// Gives the file a temporary name, just before the final one.
    pub(crate) fn name(self) -> io::Result<NamedTempFile> {
        match self {
            Draft::Named(file) => Ok(file),
            Draft::Unnamed(file, folder) => {
                let link = temporary().make_in(folder, |path| unnamed::link(&file, path))?;
                Ok(NamedTempFile::from_parts(file, link.into_temp_path()))
            }
        }
    }
}

/// Returns a builder of temporary names for files that will be renamed.
pub(crate) fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    builder
}

const PREFIX: &str = ".onnx-";
const SUFFIX: &str = ".tmp";

/// Returns `true` if `name` is one that [`temporary`] makes.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX) && !name.contains(['/', '\\'])
}

/// Removes the files that killed processes left in a folder. The caller holds the lock on the
/// folder.
///
/// All temporary names are given under that lock, except to files that are locked themselves while
/// they are written. A file that a model in the folder refers to is kept, because it is the data of
/// an interim model.
pub(crate) fn remove_abandoned(folder: &Path) {
    let entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(is_temporary);
    let (ours, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_ours);
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|found| found.is_file());
    let mut abandoned: Vec<_> = ours.into_iter().filter(is_file).collect();
    // Usually no file is abandoned, and the other files need not be read.
    if abandoned.is_empty() {
        return;
    }
    for other in others.iter().filter(|entry| !entry.path().is_dir()) {
        match external_locations(&other.path()) {
            Ok(needed) => abandoned.retain(|entry| {
                entry.file_name().to_str().is_none_or(|name| !needed.contains(name))
            }),
            Err(Error::Io { source, .. }) if is_foreign(source.kind()) => {}
            // The file may be a model.
            Err(_) => return,
        }
    }
    for entry in abandoned {
        if let Some(_lock) = try_lock(&entry.path()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Returns `true` if this error means that a file cannot be loaded as a model.
fn is_foreign(error: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    matches!(error, InvalidData | InvalidInput | NotFound | UnexpectedEof)
}

/// The number of bytes that are written between two checks for cancellation.
const PIECE: usize = 4 << 20;

/// The number of bytes that are passed to the system at a time. They stay in the processor's caches,
/// and the system need not look for large pages, which can take several times as long.
const AT_ONCE: usize = 128 << 10;

/// The size from which on space is reserved for a file.
const LARGE_FILE: u64 = 1 << 20;

/// A file that reports its progress while it is written, and can be cancelled.
pub(crate) struct Watched<'a> {
    file: &'a mut File,
    go_on: &'a mut GoOn<'a>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(file: &'a mut File, go_on: &'a mut GoOn<'a>) -> Self {
        Self { file, go_on }
    }

    /// Reserves space for a file of `bytes`.
    pub(crate) fn reserving(self, bytes: u64) -> io::Result<Self> {
        if bytes >= LARGE_FILE {
            reserve(self.file, bytes)?;
        }
        Ok(self)
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        piece.chunks(AT_ONCE).try_for_each(|bytes| self.file.write_all(bytes))?;
        (self.go_on)(Saving::Wrote(piece.len() as u64))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the metadata of the file at `path`, if it exists. Fails if a file cannot replace it, so
/// that no gigabytes are written in vain and no device is replaced with a file.
fn replaceable(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Err(invalid("not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn write_message(proto: &ModelProto, file: Watched<'_>) -> io::Result<()> {
    write_model(proto, file.reserving(proto.encoded_len() as u64)?)
}

pub(crate) fn write_data(placed: &[Placed], file: Watched<'_>) -> io::Result<()> {
    let end = placed.last().map_or(0, |last| last.offset + last.data.len() as u64);
    let mut file = file.reserving(end)?;
    let mut at = 0;
    for Placed { offset, data } in placed {
        io::copy(&mut io::Read::take(io::repeat(0), offset - at), &mut file)?;
        data.write(&mut file)?;
        at = offset + data.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saving_tests::names;

    fn files() -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::at(&folder.path().join("m.onnx")).unwrap();
        fs::write(&files.data, "old data").unwrap();
        (folder, files)
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let (folder, files) = files();
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let failed = files.write(None, |file| file.write_all(b"half").and(Err(full())));
        assert_eq!(failed.err().map(|e| e.kind()), Some(io::ErrorKind::StorageFull));
        assert_eq!(names(folder.path()), ["m.onnx.data"]);
    }

    #[test]
    fn a_file_has_no_name_before_it_is_complete() {
        let (folder, files) = files();
        if unnamed::create(folder.path()).is_none() {
            return; // this file system does not support unnamed files
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
    fn files_that_are_being_written_are_not_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let live = temporary().make_in(folder.path(), |path| File::create_new(path)).unwrap();
        hold(live.as_file());
        fs::write(folder.path().join(".onnx-dead.tmp"), "half").unwrap();
        fs::write(folder.path().join(".onnx-notes.txt"), "not ours").unwrap();
        replace_file(&folder.path().join("page.html"), |file| file.write_all(b"page")).unwrap();
        let live = live.path().file_name().unwrap().to_str().unwrap();
        let mut expected = [".onnx-notes.txt", live, "page.html"];
        expected.sort_unstable();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    #[cfg(unix)]
    fn links_are_followed() {
        use crate::saving_tests::model_of;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("store")).unwrap();
        let model = model_of(&[("w", vec![7; 5000])]);
        for (link, target) in [("a.onnx", "store/a.onnx"), ("b.onnx", "b.v1.onnx")] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
            for _ in 0..2 {
                model.save(&at(link), Placement::Inline).unwrap();
                assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
                assert!(fs::symlink_metadata(at(target)).unwrap().is_file());
            }
        }
        model.save(&at("b.onnx"), Placement::External).unwrap();
        assert!(at("b.v1.onnx.data").is_file(), "runtimes find it beside the link");
        let error = model.save(&at("a.onnx"), Placement::External).unwrap_err().to_string();
        assert!(error.contains("symbolic link to another folder"), "{error}");
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        let error = model.save(&at("circle"), Placement::Inline).unwrap_err().to_string();
        assert!(error.contains("too many symbolic links"), "{error}");
    }

    #[test]
    fn a_pending_file_gets_its_name_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx.map");
        fs::write(&path, "old").unwrap();
        let write = || Pending::write(&path, |file| file.write_all(b"new")).unwrap();
        let pending = write();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read(next_name(&path)).unwrap(), b"new");
        drop(pending);
        assert_eq!(names(folder.path()), ["m.onnx.map"]);
        write().finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["m.onnx.map"]);
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

    #[test]
    fn a_name_alone_is_in_the_working_folder() {
        for (path, folder) in
            [("m.onnx", "."), ("a/m.onnx", "a"), ("./m.onnx", "."), ("/m.onnx", "/")]
        {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder), "{path}");
        }
    }

    /// Nothing is removed beside a file that may be a model, although it cannot be read.
    #[test]
    fn only_files_that_cannot_be_models_are_foreign() {
        use io::ErrorKind::{InvalidData, NotFound, Other, PermissionDenied, UnexpectedEof};
        assert!([InvalidData, NotFound, UnexpectedEof].into_iter().all(is_foreign));
        assert!(![PermissionDenied, Other].into_iter().any(is_foreign));
    }
}
