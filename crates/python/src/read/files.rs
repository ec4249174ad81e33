//! Files: whose code they hold, and the names they are written under.
//!
//! A name says nothing about the machine. A file is named relative to the working directory or, if
//! it is elsewhere, as Python imports it (`pkg/layers.py`). No two files share a name.

use std::borrow::Cow;

use provenance::FrameKind;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use crate::jax_names::{CONVERTER_PACKAGE, JAX_PACKAGES, NOTEBOOK, STANDARD_LIBRARY_MODULE, attr};

/// What is known about files.
#[derive(Debug)]
pub(super) struct Files {
    absolute: bool,
    roots: Roots,
    /// How Python found the files of modules; asked for once, when a file needs it.
    imports: Option<Imports>,
    /// By path.
    known: FxHashMap<String, (FrameKind, String)>,
    /// How many files have wanted a name.
    wanted: FxHashMap<String, usize>,
}

impl Files {
    pub(super) fn new(py: Python<'_>, absolute: bool) -> PyResult<Self> {
        let (known, wanted) = (FxHashMap::default(), FxHashMap::default());
        Ok(Self { absolute, roots: Roots::find(py)?, imports: None, known, wanted })
    }

    /// Whose code the file at `path` holds, and the name it is written under.
    pub(super) fn classify(&mut self, py: Python<'_>, path: &str) -> PyResult<(FrameKind, String)> {
        self.classify_with(path, |working| Imports::find(py, working))
    }

    fn classify_with(
        &mut self,
        path: &str,
        imports: impl FnOnce(&str) -> PyResult<Imports>,
    ) -> PyResult<(FrameKind, String)> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let plain = plain(path);
        let (kind, name) = match self.roots.relative(&plain) {
            Some(known) => known,
            None => {
                let imports = match &self.imports {
                    Some(known) => known,
                    None => self.imports.insert(imports(&self.roots.working)?),
                };
                let name = imports.name(&plain).unwrap_or_else(|| base_name(&plain).to_owned());
                (FrameKind::User, name)
            }
        };
        let name = if self.absolute { path.to_owned() } else { self.unique(name) };
        self.known.insert(path.to_owned(), (kind, name.clone()));
        Ok((kind, name))
    }

    /// A name that no other file has: `layers.py`, then `layers.py (2)`.
    fn unique(&mut self, name: String) -> String {
        let count = self.wanted.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} ({count})") }
    }

    /// The texts of the user's files that are not on disk, such as the cells of a notebook, by path.
    pub(super) fn unsaved(&self, py: Python<'_>) -> PyResult<FxHashMap<String, String>> {
        let mut texts = FxHashMap::default();
        for (path, (kind, _)) in &self.known {
            if *kind != FrameKind::User || std::path::Path::new(path).is_file() {
                continue;
            }
            let linecache = py.import("linecache")?;
            // What was imported from an archive is found through its module.
            let module =
                self.imports.as_ref().and_then(|imports| imports.modules.get(&*plain(path)));
            let module = module.and_then(|name| {
                py.import("sys").ok()?.getattr("modules").ok()?.get_item(name).ok()
            });
            if let Some(globals) = module.and_then(|module| module.getattr(attr::__dict__(py)).ok())
            {
                linecache.call_method1("lazycache", (path, globals))?;
            }
            let lines: Vec<String> = linecache.call_method1("getlines", (path,))?.extract()?;
            if !lines.is_empty() {
                texts.insert(path.clone(), lines.concat());
            }
        }
        Ok(texts)
    }
}

/// The folders that tell whose code a file is.
#[derive(Debug)]
struct Roots {
    working: String,
    jax: Vec<String>,
    converter: Option<String>,
    standard: Option<String>,
}

impl Roots {
    fn find(py: Python<'_>) -> PyResult<Self> {
        let folder = |module: &str| -> PyResult<Option<String>> {
            let file: Option<String> = py.import(module)?.getattr(attr::__file__(py))?.extract()?;
            Ok(file.and_then(|f| plain(&f).rsplit_once('/').map(|(dir, _)| format!("{dir}/"))))
        };
        let jax = JAX_PACKAGES.iter().map(|m| folder(m)).collect::<PyResult<Vec<_>>>()?;
        let working = std::env::current_dir().unwrap_or_default();
        Ok(Self {
            working: as_folder(&working.to_string_lossy()),
            jax: jax.into_iter().flatten().collect(),
            converter: folder(CONVERTER_PACKAGE)?,
            standard: folder(STANDARD_LIBRARY_MODULE)?,
        })
    }

    /// Whose code the file at a plain path holds, and its name; `None` if the file is the user's and
    /// lies outside the working directory.
    fn relative(&self, path: &str) -> Option<(FrameKind, String)> {
        const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];
        let installed =
            INSTALLED.iter().find_map(|dir| path.rsplit_once(dir)).map(|(_, rest)| rest);
        let from_package = |root: &str| {
            let parent = root.trim_end_matches('/').rsplit_once('/');
            path[parent.map_or(0, |(dir, _)| dir.len() + 1)..].to_owned()
        };
        if let Some(root) = self.converter.as_ref().filter(|root| below(root, path).is_some()) {
            return Some((FrameKind::Converter, from_package(root)));
        }
        if let Some(root) = self.jax.iter().find(|root| below(root, path).is_some()) {
            return Some((FrameKind::Jax, from_package(root)));
        }
        if let Some(rest) = installed {
            return Some((FrameKind::Library, rest.to_owned()));
        }
        if path.starts_with("<frozen ") {
            return Some((FrameKind::Library, path.to_owned()));
        }
        if let Some(rest) = self.standard.as_ref().and_then(|root| below(root, path)) {
            return Some((FrameKind::Library, rest.to_owned()));
        }
        Some((FrameKind::User, below(&self.working, path)?.to_owned()))
    }
}

/// How Python found files: the modules it loaded, the folders it searches, the cells of a notebook.
#[derive(Debug, Default)]
struct Imports {
    /// Names of modules, by the plain paths of their files.
    modules: FxHashMap<String, String>,
    /// The folders that modules are searched in.
    search: Vec<String>,
    /// The numbers of notebook cells, by the plain paths that their code goes by.
    cells: FxHashMap<String, i64>,
}

impl Imports {
    fn find(py: Python<'_>, working: &str) -> PyResult<Self> {
        let sys = py.import("sys")?;
        let mut imports = Self::default();
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
                imports.modules.entry(plain(&file).into_owned()).or_insert(name);
            }
        }
        for folder in sys.getattr("path")?.try_iter()? {
            let Ok(folder) = folder?.extract::<String>() else { continue };
            let folder = as_folder(&folder);
            let is_absolute = folder.starts_with('/') || has_drive(&folder);
            let folder = if is_absolute { folder } else { format!("{working}{folder}") };
            imports.search.push(as_folder(&folder));
        }
        imports.cells = cells(py)?;
        Ok(imports)
    }

    fn name(&self, path: &str) -> Option<String> {
        if let Some(number) = self.cells.get(path) {
            return Some(format!("In [{number}]"));
        }
        if let Some(module) = self.modules.get(path) {
            let folder = module.replace('.', "/");
            return Some(match base_name(path) {
                file @ ("__init__.py" | "__main__.py") if !folder.ends_with("__main__") => {
                    format!("{folder}/{file}")
                }
                // A module may have another name than its file.
                file => folder
                    .rsplit_once('/')
                    .map_or(file.to_owned(), |(up, _)| format!("{up}/{file}")),
            });
        }
        let below = self.search.iter().filter_map(|folder| below(folder, path));
        below.min_by_key(|rest| rest.len()).map(str::to_owned)
    }
}

/// The cells of the notebook or IPython session that is running.
fn cells(py: Python<'_>) -> PyResult<FxHashMap<String, i64>> {
    let (module, get, compiler, map) = NOTEBOOK;
    let modules = py.import("sys")?.getattr("modules")?;
    if !modules.contains(module)? {
        return Ok(FxHashMap::default());
    }
    let shell = modules.get_item(module)?.call_method0(get)?;
    let map = shell.getattr_opt(compiler)?.map(|compiler| compiler.getattr_opt(map));
    let Some(map) = map.transpose()?.flatten() else { return Ok(FxHashMap::default()) };
    let numbers: FxHashMap<String, i64> = map.extract().unwrap_or_default();
    Ok(numbers.into_iter().map(|(path, number)| (plain(&path).into_owned(), number)).collect())
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What follows the folder `root` in `path`. Windows does not tell upper from lower case.
fn below<'p>(root: &str, path: &'p str) -> Option<&'p str> {
    let (start, rest) = path.split_at_checked(root.len())?;
    let same = if has_drive(root) || root.starts_with("//") {
        start.eq_ignore_ascii_case(root)
    } else {
        start == root
    };
    (same && !rest.is_empty()).then_some(rest)
}

fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
}

/// A folder's plain path, with a slash at its end.
fn as_folder(path: &str) -> String {
    let path = plain(path);
    match path.trim_end_matches('/') {
        "" if path.is_empty() => String::new(),
        trimmed => format!("{trimmed}/"),
    }
}

/// A path with slashes only, without `.` and `..`, which would lead out of the folder that it begins
/// with.
fn plain(path: &str) -> Cow<'_, str> {
    let path = match path.strip_prefix(r"\\?\") {
        Some(rest) => match rest.strip_prefix(r"UNC\") {
            Some(share) => Cow::Owned(format!("//{}", share.replace('\\', "/"))),
            None => Cow::Owned(rest.replace('\\', "/")),
        },
        None if has_drive(path) || path.starts_with(r"\\") => Cow::Owned(path.replace('\\', "/")),
        None => Cow::Borrowed(path),
    };
    let rooted = path.starts_with('/') || has_drive(&path);
    if !rooted || !path.split('/').any(|part| matches!(part, "." | "..")) {
        return path;
    }
    let start = if path.starts_with("//") {
        "//"
    } else if path.starts_with('/') {
        "/"
    } else {
        ""
    };
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    Cow::Owned(format!("{start}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let roots = Roots {
            working: "/home/me/project/".into(),
            jax: vec!["/py/site-packages/jax/".into(), "/src/jaxlib/".into()],
            converter: Some("/home/me/src/jax2onnx/".into()),
            standard: Some("/py/lib/".into()),
        };
        let modules = [
            ("/far/a/layers.py", "pkg.a.layers"),
            ("/far/b/layers.py", "pkg.b.layers"),
            ("/far/pkg/__init__.py", "pkg"),
            ("/odd/impl_v2.py", "pkg.model"),
        ];
        let modules = modules.map(|(path, name)| (path.to_owned(), name.to_owned()));
        let search = vec![
            "/opt/code/".to_owned(),
            "/opt/code/src/".to_owned(),
            "C:/Users/alice/".to_owned(),
        ];
        let cells = FxHashMap::from_iter([("/tmp/ipykernel_7/336.py".to_owned(), 7)]);
        let imports = Imports { modules: modules.into_iter().collect(), search, cells };
        Files {
            absolute: false,
            roots,
            imports: Some(imports),
            known: FxHashMap::default(),
            wanted: FxHashMap::default(),
        }
    }

    fn assert_named(files: &mut Files, path: &str, kind: FrameKind, name: &str) {
        let found = files.classify_with(path, |_| Ok(Imports::default())).unwrap();
        assert_eq!(found, (kind, name.to_owned()), "{path}");
    }

    #[test]
    fn no_absolute_path_is_written() {
        let mut files = files();
        for (path, kind, name) in [
            ("/home/me/project/a/b.py", FrameKind::User, "a/b.py"),
            ("/elsewhere/c.py", FrameKind::User, "c.py"),
            ("/home/me/project/../../bob/d.py", FrameKind::User, "d.py"),
            ("/home/me/x/../project/./a/e.py", FrameKind::User, "a/e.py"),
            ("../../bob/f.py", FrameKind::User, "f.py"),
            ("<stdin>", FrameKind::User, "<stdin>"),
            ("/py/site-packages/jax/x.py", FrameKind::Jax, "jax/x.py"),
            ("/src/jaxlib/x.py", FrameKind::Jax, "jaxlib/x.py"),
            ("/py/site-packages/flax/x.py", FrameKind::Library, "flax/x.py"),
            ("/py/lib/functools.py", FrameKind::Library, "functools.py"),
            ("/home/me/src/jax2onnx/x.py", FrameKind::Converter, "jax2onnx/x.py"),
            (r"C:\Users\alice\deep\g.py", FrameKind::User, "deep/g.py"),
            (r"c:\users\ALICE\h.py", FrameKind::User, "h.py"),
            (r"D:\work\..\work\i.py", FrameKind::User, "i.py"),
            (r"\\server\alice\j.py", FrameKind::User, "j.py"),
            (r"\\?\C:\Users\alice\k.py", FrameKind::User, "k.py"),
            (r"\\?\UNC\server\alice\l.py", FrameKind::User, "l.py"),
            (r"C:\Python\Lib\site-packages\flax\m.py", FrameKind::Library, "flax/m.py"),
        ] {
            assert_named(&mut files, path, kind, name);
        }
    }

    #[test]
    fn files_are_named_as_python_imports_them() {
        let mut files = files();
        for (path, name) in [
            ("/far/a/layers.py", "pkg/a/layers.py"),
            ("/far/b/layers.py", "pkg/b/layers.py"),
            ("/far/pkg/__init__.py", "pkg/__init__.py"),
            ("/odd/impl_v2.py", "pkg/impl_v2.py"),
            ("/opt/code/src/tool/run.py", "tool/run.py"),
            ("/opt/code/tool/run.py", "tool/run.py (2)"),
            ("/tmp/ipykernel_7/336.py", "In [7]"),
        ] {
            assert_named(&mut files, path, FrameKind::User, name);
        }
    }

    #[test]
    fn two_files_are_two_names() {
        let mut files = files();
        for _ in 0..2 {
            assert_named(&mut files, "/x/c.py", FrameKind::User, "c.py");
            assert_named(&mut files, "/y/c.py", FrameKind::User, "c.py (2)");
        }
    }
}
