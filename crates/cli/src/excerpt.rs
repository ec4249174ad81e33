//! Lines of the user's source files: from disk if the file has not changed since the export, else
//! from the text in the source map.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use provenance::{digest, edited_since_loaded, source_text};
use rustc_hash::FxHashMap;

use crate::model::Model;

/// The largest file that is read, far beyond any handwritten source.
const LARGEST: u64 = 1 << 24;

/// The text of a file, or why there is none.
pub(crate) type Found = Result<Rc<str>, String>;

/// The source files that a model refers to.
#[derive(Debug)]
pub(crate) struct Excerpts<'m> {
    model: &'m Model,
    roots: Vec<PathBuf>,
    files: RefCell<FxHashMap<String, Found>>,
    opened: RefCell<Vec<PathBuf>>,
    /// The files on disk that are those of the export, which their digests prove.
    proven: RefCell<FxHashMap<String, PathBuf>>,
}

impl<'m> Excerpts<'m> {
    /// The files of `model`, which are below the working directory or the model's folder.
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

    /// The same, with more folders to look into.
    pub(crate) fn with_folders(mut self, folders: &[PathBuf]) -> Self {
        self.roots.splice(0..0, folders.iter().cloned());
        self
    }

    /// Where `file` is on disk, if it has not changed since the export. Only a digest proves that.
    pub(crate) fn location(&self, file: &str) -> Option<PathBuf> {
        self.text(file).ok()?;
        self.proven.borrow().get(file).cloned()
    }

    /// The text of `file` as it was exported.
    pub(crate) fn text(&self, file: &str) -> Found {
        if let Some(known) = self.files.borrow().get(file) {
            return known.clone();
        }
        let found = self.find(file);
        self.files.borrow_mut().insert(file.to_owned(), found.clone());
        found
    }

    /// A caveat about the text of `file`: without a digest in the model, nobody knows whether it is
    /// the text that was exported.
    pub(crate) fn doubt(&self, file: &str) -> Option<String> {
        let is_known = self.model.map.as_ref().is_some_and(|map| map.file(file).is_some());
        (!is_known && self.text(file).is_ok()).then(|| {
            format!(
                "`{file}` may have changed since the export; the model has no digest to check it"
            )
        })
    }

    /// One line of `file`, counted from 1.
    pub(crate) fn line(&self, file: &str, number: u32) -> Option<String> {
        let text = self.text(file).ok()?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        text.lines().nth(index).map(str::to_owned)
    }

    /// The files that were opened.
    pub(crate) fn opened(&self) -> Vec<PathBuf> {
        self.opened.borrow().clone()
    }

    /// The folders that a file may lie below. A file outside the export's working directory is named
    /// as Python imports it; where a digest decides, it may be in any folder that is usual for that.
    fn places(&self, has_digest: bool) -> Vec<PathBuf> {
        let mut places = self.roots.clone();
        if has_digest {
            for below in ["src", "..", "../src"] {
                places.extend(self.roots.iter().map(|root| root.join(below)));
            }
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
        let (mut changed, mut outside) = (false, false);
        // If the map lists a file without a digest, the file belongs to a package.
        if known.is_none() || wanted.is_some() {
            for root in self.places(wanted.is_some()) {
                let root = &root;
                // A path in a model may lead anywhere. Only a digest proves that the model was
                // made from the file.
                if wanted.is_none() && !is_below(root, file) {
                    outside = true;
                    continue;
                }
                let path = root.join(on_disk(file));
                let Some(text) = read(&path).map(source_text) else { continue };
                self.opened.borrow_mut().push(path.clone());
                if wanted.is_none_or(|wanted| wanted == digest(text.as_bytes())) {
                    if wanted.is_some() {
                        self.proven.borrow_mut().insert(file.to_owned(), path);
                    }
                    return Ok(text.into());
                }
                changed = true;
            }
        }
        match embedded {
            Some(text) => Ok(text.into()),
            None if changed => Err(format!("`{file}` has changed since the export")),
            None if outside => Err(format!(
                "`{file}` is outside this folder, and the model has no digest to check it"
            )),
            None if file.starts_with(CELL) => Err(format!(
                "`{file}` is a notebook cell; export with source_text=True to keep its text"
            )),
            None => Err(format!("`{file}` was not found")),
        }
    }
}

/// What the names of notebook cells begin with.
const CELL: &str = "In [";

/// The name of a file without the number that sets it apart from another of the same name.
fn on_disk(file: &str) -> &str {
    let numbered = file.strip_suffix(')').and_then(|file| file.rsplit_once(" ("));
    match numbered {
        Some((name, number)) if number.parse::<u32>().is_ok() => name,
        _ => file,
    }
}

/// Whether `file`, if it exists, is below `root` after following links.
fn is_below(root: &Path, file: &str) -> bool {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(file).components().all(is_plain) {
        return false;
    }
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    match (root.canonicalize(), root.join(file).canonicalize()) {
        (Ok(root), Ok(path)) => path.starts_with(root),
        // It does not exist.
        _ => true,
    }
}

/// The bytes of a Python file. No other file is opened, whatever a model asks for.
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
}
