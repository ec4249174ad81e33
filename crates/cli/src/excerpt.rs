//! Lines of the user's source files: from the file system if the file is the one that was exported,
//! else from the text in the source map.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use provenance::digest;
use rustc_hash::FxHashMap;

use crate::model::Model;

/// No source file that a person wrote comes near this.
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
}

impl<'m> Excerpts<'m> {
    /// The files of `model`, which lie below the working directory or the model's folder.
    pub(crate) fn new(model: &'m Model) -> Self {
        let mut roots = vec![PathBuf::new()];
        let folder = model.path.as_deref().and_then(Path::parent);
        roots.extend(folder.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned));
        Self { model, roots, files: RefCell::default(), opened: RefCell::default() }
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

    /// One line of `file`, counted from 1.
    pub(crate) fn line(&self, file: &str, number: u32) -> Option<String> {
        let text = self.text(file).ok()?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        text.lines().nth(index).map(str::to_owned)
    }

    /// The files of the file system whose texts were asked for.
    pub(crate) fn opened(&self) -> Vec<PathBuf> {
        self.opened.borrow().clone()
    }

    fn find(&self, file: &str) -> Found {
        let known = self.model.map.as_ref().and_then(|map| map.file(file));
        let (wanted, embedded) = known.unwrap_or_default();
        let mut changed = false;
        // A map that knows a file without its digest has a reason: it is a package's.
        if known.is_none() || wanted.is_some() {
            for path in self.roots.iter().map(|root| root.join(file)) {
                let Some(bytes) = read(&path) else { continue };
                self.opened.borrow_mut().push(path);
                if wanted.is_some_and(|wanted| wanted != digest(&bytes)) {
                    changed = true;
                    continue;
                }
                if let Ok(text) = String::from_utf8(bytes) {
                    return Ok(text.into());
                }
            }
        }
        match embedded {
            Some(text) => Ok(text.into()),
            None if changed => Err(format!("`{file}` has changed since the export")),
            None => Err(format!("`{file}` is not here")),
        }
    }
}

/// The bytes of a Python file. Nothing else is opened, whatever a model asks for.
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
