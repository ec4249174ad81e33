//! Files: how Python found them, which the names that they are written under are made from.

use std::path::Path;

use provenance::{FileNames, FrameKind, Imports, Roots, as_folder, folder_of};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use crate::jax_names::{CONVERTER_PACKAGE, JAX_PACKAGES, NOTEBOOK, STANDARD_LIBRARY_MODULE, attr};

/// What is known about files.
#[derive(Debug)]
pub(super) struct Files(FileNames);

impl Files {
    pub(super) fn new(py: Python<'_>, absolute: bool) -> PyResult<Self> {
        Ok(Self(FileNames::new(roots(py)?, absolute)))
    }

    /// Whose code the file at `path` holds, and the name it is written under.
    pub(super) fn classify(&mut self, py: Python<'_>, path: &str) -> PyResult<(FrameKind, String)> {
        self.0.classify(path, |working| imports(py, working))
    }

    /// The texts of the user's files that are not on disk, such as the cells of a notebook, by path.
    pub(super) fn unsaved(&self, py: Python<'_>) -> PyResult<FxHashMap<String, String>> {
        let mut texts = FxHashMap::default();
        for path in self.0.of_user().filter(|path| !std::path::Path::new(path).is_file()) {
            let linecache = py.import("linecache")?;
            // What was imported from an archive is found through its module.
            let module = self.0.module(path).and_then(|name| {
                py.import("sys").ok()?.getattr("modules").ok()?.get_item(name).ok()
            });
            if let Some(globals) = module.and_then(|module| module.getattr(attr::__dict__(py)).ok())
            {
                linecache.call_method1("lazycache", (path, globals))?;
            }
            let lines: Vec<String> = linecache.call_method1("getlines", (path,))?.extract()?;
            if !lines.is_empty() {
                texts.insert(path.to_owned(), lines.concat());
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
        // The dictionary, since asking a lazy module for an attribute may load it.
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

/// The cells of the notebook or IPython session that is running: their numbers, by the paths that
/// their code goes by.
fn cells(py: Python<'_>) -> PyResult<FxHashMap<String, i64>> {
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
