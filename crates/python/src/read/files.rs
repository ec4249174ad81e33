//! Python's view of source files, which determines the names that they are recorded under.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use provenance::{
    Diagnostic, FileNames, FrameKind, Imports, Roots, as_folder, edited_since_loaded, folder_of,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use crate::jax_names::{
    CONVERTER_PACKAGE, JAX_PACKAGES, LOADED_TEXT, NOTEBOOK, STANDARD_LIBRARY_MODULE, attr,
};

/// Parts of a file that a program refers to: code objects with the instructions that were running,
/// and functions with their first lines.
pub(super) type UsedParts = (Vec<(Py<PyAny>, Vec<i64>)>, Vec<(String, u32)>);

/// The texts of files as Python loaded them.
#[derive(Debug, Default)]
pub(crate) struct LoadedTexts {
    /// By path.
    pub(crate) known: FxHashMap<String, String>,
    /// The paths of files that were edited since.
    pub(crate) edited: Vec<String>,
}

impl LoadedTexts {
    /// Returns a line of the file at `path`, counted from 1. Files that are not the user's come from
    /// `linecache`.
    pub(crate) fn line(&self, py: Python<'_>, path: &str, number: u32) -> Option<String> {
        if self.is_edited(path) {
            return None;
        }
        if let Some(text) = self.known.get(path) {
            let index = usize::try_from(number).ok()?.checked_sub(1)?;
            return text.lines().nth(index).map(str::to_owned);
        }
        let line = py.import("linecache").ok()?.call_method1("getline", (path, number));
        let text: String = line.ok()?.extract().ok()?;
        (!text.is_empty()).then_some(text)
    }

    fn is_edited(&self, path: &str) -> bool {
        self.edited.iter().any(|edited| edited == path)
    }

    /// Formats the locations of a diagnostic with their source lines, and the reasons for missing lines.
    pub(crate) fn render(&self, py: Python<'_>, diagnostic: &Diagnostic) -> String {
        let mut text = diagnostic.render_places(&|path, number| self.line(py, path, number));
        let edited = diagnostic.places.iter().filter(|place| self.is_edited(&place.path));
        let notes: BTreeSet<String> =
            edited.map(|place| edited_since_loaded(&place.file)).collect();
        for note in notes {
            let _ = write!(text, "\n  note: no source line: {note}");
        }
        text
    }
}

/// The known source files.
#[derive(Debug)]
pub(super) struct Files(FileNames);

impl Files {
    /// Creates an empty set of files. `packages` are those whose owner the user chose.
    pub(super) fn new(py: Python<'_>, absolute: bool, packages: &[String]) -> PyResult<Self> {
        Ok(Self(FileNames::new(roots(py)?, absolute).with_owners(packages)))
    }

    /// Returns the kind of code in the file at `path`, and the name that it is recorded under.
    pub(super) fn classify(&mut self, py: Python<'_>, path: &str) -> PyResult<(FrameKind, String)> {
        self.0.classify(path, |working| imports(py, working))
    }

    /// Returns the texts that the user's files had when Python loaded them.
    pub(super) fn texts(
        &self,
        py: Python<'_>,
        mut used: FxHashMap<&str, UsedParts>,
    ) -> PyResult<LoadedTexts> {
        let mut texts = LoadedTexts::default();
        let modules = py.import("sys")?.getattr("modules")?;
        let (helper, function) = LOADED_TEXT;
        let loaded_text = py.import(helper)?.getattr(function)?;
        for path in self.0.of_user() {
            let parts = used.remove(path).unwrap_or_default();
            let module = self.0.module(path).and_then(|name| modules.get_item(name).ok());
            match loaded_text.call1((path, parts, module))?.extract()? {
                (Some(text), _) => drop(texts.known.insert(path.to_owned(), text)),
                (None, true) => texts.edited.push(path.to_owned()),
                (None, false) => {}
            }
        }
        Ok(texts)
    }
}

/// Files and folders that the top folder of a project has.
const MARKERS: [&str; 3] = ["pyproject.toml", ".git", "setup.py"];

fn roots(py: Python<'_>) -> PyResult<Roots> {
    let folder = |module: &str| -> PyResult<Option<String>> {
        let file: Option<String> = py.import(module)?.getattr(attr::__file__(py))?.extract()?;
        Ok(file.and_then(|file| folder_of(&file)))
    };
    let jax = JAX_PACKAGES.iter().map(|m| folder(m)).collect::<PyResult<Vec<_>>>()?;
    let working = std::env::current_dir().unwrap_or_default();
    Ok(Roots {
        working: as_folder(&working.to_string_lossy()),
        jax: jax.into_iter().flatten().collect(),
        converter: folder(CONVERTER_PACKAGE)?,
        standard: folder(STANDARD_LIBRARY_MODULE)?,
        home: std::env::home_dir().map(|home| as_folder(&home.to_string_lossy())),
        is_project: |folder| MARKERS.iter().any(|marker| Path::new(folder).join(marker).exists()),
    })
}

fn imports(py: Python<'_>, working: &str) -> PyResult<Imports> {
    let sys = py.import("sys")?;
    let mut imports = Imports::default();
    let modules = sys.getattr("modules")?.cast_into::<PyDict>().map_err(PyErr::from)?;
    for (name, module) in modules.iter() {
        // The dictionary is read, since accessing an attribute of a lazy module may load it.
        let Some(about) = module.getattr_opt(attr::__dict__(py))? else { continue };
        let Ok(about) = about.cast_into::<PyDict>() else { continue };
        let file = about.get_item(attr::__file__(py))?;
        let file = file.and_then(|file| file.extract::<String>().ok());
        if let (Some(file), Ok(name)) = (file, name.extract::<String>())
            && !matches!(&*name, "__main__" | "__mp_main__")
        {
            imports.add_module(&file, name);
        }
    }
    for folder in sys.getattr("path")?.try_iter()? {
        let Ok(folder) = folder?.extract::<String>() else { continue };
        imports.add_search(&folder, working);
    }
    for (path, number) in cells(py)? {
        imports.add_cell(&path, number);
    }
    Ok(imports)
}

/// Returns the cells of the running notebook or IPython session: their numbers, by the paths of
/// their code.
pub(crate) fn cells(py: Python<'_>) -> PyResult<FxHashMap<String, i64>> {
    let (module, get, compiler, map) = NOTEBOOK;
    let modules = py.import("sys")?.getattr("modules")?;
    if !modules.contains(module)? {
        return Ok(FxHashMap::default());
    }
    let shell = modules.get_item(module)?.call_method0(get)?;
    let map = shell.getattr_opt(compiler)?.map(|compiler| compiler.getattr_opt(map));
    let Some(map) = map.transpose()?.flatten() else { return Ok(FxHashMap::default()) };
    Ok(map.extract().unwrap_or_default())
}
