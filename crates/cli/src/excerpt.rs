//! Source files of the user's program. They are read from disk if they have not changed since the
//! export, and otherwise from the source map.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;

use provenance::{SourceMap, digest, edited_since_loaded, source_text};
use rustc_hash::FxHashMap;

use crate::model::{Model, leaves_folder};

/// The maximum size of a source file, far beyond any handwritten one.
const LARGEST: u64 = 1 << 24;

/// The maximum number of files compared with those on disk before anything is shown.
const CHECKED: usize = 256;

/// The text of a file, or the reason why it is unavailable.
pub(crate) type Found = Result<Rc<str>, String>;

/// The source files that a model refers to.
#[derive(Debug)]
pub(crate) struct Excerpts<'m> {
    model: &'m Model,
    roots: Vec<PathBuf>,
    files: RefCell<FxHashMap<String, Found>>,
    opened: RefCell<Vec<PathBuf>>,
    /// The files on disk whose digests prove that they are unchanged since the export.
    proven: RefCell<FxHashMap<String, PathBuf>>,
}

impl<'m> Excerpts<'m> {
    /// Looks for the files of `model` below the working directory and the model's folder.
    pub(crate) fn new(model: &'m Model) -> Self {
        let mut roots = vec![PathBuf::new()];
        let folder = model.path.as_deref().and_then(Path::parent);
        roots.extend(folder.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned));
        Self {
            model,
            roots,
            files: RefCell::default(),
            opened: RefCell::default(),
            proven: RefCell::default(),
        }
    }

    /// Adds folders to search first.
    pub(crate) fn with_folders(mut self, folders: &[PathBuf]) -> Self {
        self.roots.splice(0..0, folders.iter().cloned());
        self
    }

    /// Returns the path of `file` on disk, if a digest proves that it has not changed since the
    /// export.
    pub(crate) fn location(&self, file: &str) -> Option<PathBuf> {
        self.text(file).ok()?;
        self.proven.borrow().get(file).cloned()
    }

    /// Returns the text of `file` as it was exported.
    pub(crate) fn text(&self, file: &str) -> Found {
        if let Some(known) = self.files.borrow().get(file) {
            return known.clone();
        }
        let found = self.find(file);
        self.files.borrow_mut().insert(file.to_owned(), found.clone());
        found
    }

    /// Returns a caveat if the model has no digest of `file`, so that its text may have changed
    /// since the export.
    pub(crate) fn doubt(&self, file: &str) -> Option<String> {
        let is_known = self.model.map.as_ref().is_some_and(|map| map.file(file).is_some());
        (!is_known && self.text(file).is_ok()).then(|| {
            format!(
                "`{file}` may have changed since the export; the model has no digest to check it"
            )
        })
    }

    /// Returns a note for each of the user's files on disk that has changed since the export. The
    /// model's line numbers refer to the former text.
    pub(crate) fn changed(&self) -> Vec<String> {
        let files = self.model.map.iter().flat_map(SourceMap::user_files).take(CHECKED);
        let notes =
            files.filter_map(|file| self.text(file).err().filter(|why| *why == changed(file)));
        notes.map(|why| format!("{why}; line numbers are those of the export")).collect()
    }

    /// Returns one line of `file`, counted from 1.
    pub(crate) fn line(&self, file: &str, number: u32) -> Option<String> {
        let text = self.text(file).ok()?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        text.lines().nth(index).map(str::to_owned)
    }

    /// Returns the files that were opened.
    pub(crate) fn opened(&self) -> Vec<PathBuf> {
        self.opened.borrow().clone()
    }

    /// Returns the folders to search. A file outside the export's working directory is named as
    /// Python imports it. If a digest can confirm the file, the usual folders for packages are
    /// searched, too.
    fn places(&self, has_digest: bool) -> Vec<PathBuf> {
        let mut places = self.roots.clone();
        if has_digest {
            for below in ["src", "..", "../src"] {
                places.extend(self.roots.iter().map(|root| root.join(below)));
            }
            places.extend(package_folders());
        }
        places
    }

    fn find(&self, file: &str) -> Found {
        let known = self.model.map.as_ref().and_then(|map| map.file(file));
        let (wanted, embedded) = known.unwrap_or_default();
        let map = self.model.map.as_ref();
        if map.is_some_and(|map| map.edited().any(|edited| edited == file)) {
            return Err(edited_since_loaded(file));
        }
        if let Some(text) = wanted.filter(|_| file.starts_with(CELL)).and_then(cell) {
            return Ok(text);
        }
        let (mut is_changed, mut outside) = (false, false);
        // If the map lists a file without a digest, the file belongs to a package.
        if known.is_none() || wanted.is_some() {
            for root in self.places(wanted.is_some()) {
                let root = &root;
                // A path in a model may point anywhere. Only a digest proves that the model was
                // made from the file.
                if wanted.is_none() && !is_below(root, file) {
                    outside = true;
                    continue;
                }
                let path = root.join(&*on_disk(file));
                let Some(text) = read(&path).map(source_text) else { continue };
                self.opened.borrow_mut().push(path.clone());
                if wanted.is_none_or(|wanted| wanted == digest(text.as_bytes())) {
                    if wanted.is_some() {
                        self.proven.borrow_mut().insert(file.to_owned(), path);
                    }
                    return Ok(text.into());
                }
                is_changed = true;
            }
        }
        match embedded {
            Some(text) => Ok(text.into()),
            None if is_changed => Err(changed(file)),
            None if outside => Err(format!(
                "`{file}` is outside this folder, and the model has no digest to check it"
            )),
            None if file.starts_with(CELL) => Err(format!(
                "`{file}` is a notebook cell; to keep its text, export with \
                 provenance=Provenance(text=True), or source_text=True in to_onnx"
            )),
            None => Err(format!("`{file}` was not found")),
        }
    }
}

/// Returns the reason for which the text of a file on disk is not shown.
fn changed(file: &str) -> String {
    format!("`{file}` has changed since the export")
}

/// The prefix of the names of notebook cells.
const CELL: &str = "In [";

/// Returns the name of a file on disk, without the number that distinguishes it from others of the
/// same name. The Python package writes notebook cells to files for `view`.
fn on_disk(file: &str) -> Cow<'_, str> {
    if file.starts_with(CELL) {
        return format!("{file}.py").into();
    }
    let numbered = file.strip_suffix(')').and_then(|file| file.rsplit_once(" ("));
    match numbered {
        Some((name, number)) if number.parse::<u32>().is_ok() => name.into(),
        _ => file.into(),
    }
}

/// Returns `true` if `file` is below `root` after following links, or does not exist.
fn is_below(root: &Path, file: &str) -> bool {
    if leaves_folder(file) {
        return false;
    }
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    match (root.canonicalize(), root.join(file).canonicalize()) {
        (Ok(root), Ok(path)) => path.starts_with(root),
        // The file does not exist.
        _ => true,
    }
}

/// The folders that Python imports packages from, if Python runs the commands.
static PACKAGES: Mutex<Option<Vec<PathBuf>>> = Mutex::new(None);

/// Sets the folders that Python imports packages from.
pub fn set_package_folders(folders: Vec<PathBuf>) {
    if let Ok(mut packages) = PACKAGES.lock() {
        *packages = Some(folders);
    }
}

/// Returns the folders that Python imports packages from. Without Python, they are those of the
/// active virtual environment.
fn package_folders() -> Vec<PathBuf> {
    if let Ok(Some(known)) = PACKAGES.lock().as_deref() {
        return known.clone();
    }
    let Some(environment) = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from) else {
        return Vec::new();
    };
    let versions = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let unix = versions.map(|version| version.path().join("site-packages"));
    unix.chain([environment.join("Lib").join("site-packages")]).collect()
}

/// The texts of the cells of the running notebook.
static CELLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets the texts of the cells of the running notebook, which are not files.
pub fn set_cells(texts: Vec<String>) {
    if let Ok(mut cells) = CELLS.lock() {
        *cells = texts;
    }
}

/// Returns the text of the notebook cell with this digest.
fn cell(wanted: &str) -> Option<Rc<str>> {
    let cells = CELLS.lock().ok()?;
    cells.iter().find(|text| digest(text.as_bytes()) == wanted).map(|text| text.as_str().into())
}

/// Returns the text of the Python file at a path.
pub fn python_file(path: &str) -> Option<String> {
    read(Path::new(path)).map(source_text)
}

/// Reads a Python file. Files of other kinds are never opened, regardless of the model's contents.
fn read(path: &Path) -> Option<Vec<u8>> {
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    let about = path.metadata().ok().filter(std::fs::Metadata::is_file);
    if !is_python || about?.len() > LARGEST {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_map(folder: &Path) -> Model {
        let path = Some(folder.join("m.onnx"));
        Model { path, proto: Default::default(), map: None, map_path: None, remarks: vec![] }
    }

    #[test]
    fn files_without_a_digest_are_read_only_below_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("models");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(outer.path().join("secret.py"), "key = 1").unwrap();
        std::fs::write(folder.join("own.py"), "x = 1").unwrap();
        let model = without_map(&folder);
        let excerpts = Excerpts::new(&model);
        assert_eq!(&*excerpts.text("own.py").unwrap(), "x = 1");
        assert!(excerpts.doubt("own.py").unwrap().contains("no digest"));
        let absolute = outer.path().join("secret.py");
        let mut paths = vec!["../secret.py", "x/../../secret.py", absolute.to_str().unwrap()];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&absolute, folder.join("link.py")).unwrap();
            paths.push("link.py");
        }
        for path in paths {
            assert!(excerpts.text(path).unwrap_err().contains("outside this folder"), "{path}");
            assert_eq!(excerpts.doubt(path), None);
        }
        assert!(excerpts.text("none.py").unwrap_err().contains("not found"));
    }

    #[test]
    fn other_encodings_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.py"), b"# coding: latin-1\nn = '\xfc'\n").unwrap();
        let model = without_map(folder.path());
        assert_eq!(Excerpts::new(&model).line("a.py", 2).as_deref(), Some("n = 'ü'"));
    }

    #[test]
    fn names_on_disk_have_no_number() {
        assert_eq!(on_disk("a/layers.py (2)"), "a/layers.py");
        assert_eq!(on_disk("a/layers.py"), "a/layers.py");
        assert_eq!(on_disk("a (copy)"), "a (copy)");
        assert_eq!(on_disk("In [3]"), "In [3].py");
    }

    #[test]
    fn cells_are_known_by_their_digests() {
        set_cells(vec!["x = 1".to_owned(), "y = 2".to_owned()]);
        assert_eq!(cell(&digest(b"y = 2")).as_deref(), Some("y = 2"));
        assert_eq!(cell(&digest(b"z = 3")), None);
        set_cells(Vec::new());
    }

    #[test]
    fn only_python_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.py", "a.txt"] {
            std::fs::write(folder.path().join(name), "x = 1\n").unwrap();
        }
        std::fs::create_dir(folder.path().join("b.py")).unwrap();
        let text = |name: &str| python_file(folder.path().join(name).to_str().unwrap());
        assert_eq!(text("a.py").as_deref(), Some("x = 1\n"));
        assert_eq!([text("a.txt"), text("b.py"), text("c.py")], [None, None, None]);
    }
}
