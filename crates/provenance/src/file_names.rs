//! Display names of source files, and the classification of files by owner.
//!
//! A name must not reveal the machine or its user. A file is named relative to the working
//! directory or, outside it, as Python imports it (`pkg/layers.py`). Paths relative to a working
//! directory such as `/` would reveal home directories; those files are named relative to their
//! project. Names are unique.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::FrameKind;

/// The display names assigned so far, and the data that new names are derived from.
#[derive(Debug)]
pub struct FileNames {
    absolute: bool,
    roots: Roots,
    /// Packages with the owners that the user chose.
    owners: Vec<(String, FrameKind)>,
    /// Loaded when the first file needs it.
    imports: Option<Imports>,
    /// The kind and the name of each file, by path.
    known: FxHashMap<String, (FrameKind, String)>,
    /// The number of files that have requested each name.
    wanted: FxHashMap<String, usize>,
}

impl FileNames {
    /// Creates an empty set of names. With `absolute`, files keep the paths they have on this
    /// machine.
    #[must_use]
    pub fn new(roots: Roots, absolute: bool) -> Self {
        let (known, wanted) = (FxHashMap::default(), FxHashMap::default());
        Self { absolute, roots, imports: None, known, wanted, owners: Vec::new() }
    }

    /// Sets the packages whose code counts as the user's, such as `mujoco.mjx`. A name after a
    /// minus sign counts as a library's.
    #[must_use]
    pub fn with_owners(mut self, packages: &[String]) -> Self {
        let owner = |package: &String| match package.strip_prefix('-') {
            Some(package) => (package.to_owned(), FrameKind::Library),
            None => (package.clone(), FrameKind::User),
        };
        self.owners = packages.iter().map(owner).collect();
        self
    }

    /// Returns the owner of the code in the file at `path`, and the file's display name. Calls
    /// `imports` with the working directory for the first file outside it.
    ///
    /// # Errors
    /// If `imports` fails.
    pub fn classify<E>(
        &mut self,
        path: &str,
        imports: impl FnOnce(&str) -> Result<Imports, E>,
    ) -> Result<(FrameKind, String), E> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let plain = plain(path);
        let known = self.roots.relative(&plain);
        if self.imports.is_none() && (known.is_none() || !self.owners.is_empty()) {
            self.imports = Some(imports(&self.roots.working)?);
        }
        let (kind, name) = match (known, &self.imports) {
            (Some(known), _) => known,
            (None, Some(imports)) => (FrameKind::User, self.roots.outside(&plain, imports)),
            (None, None) => (FrameKind::User, base_name(&plain)),
        };
        let kind = self.owner(&plain, kind, &name);
        let name = if self.absolute { path.to_owned() } else { self.unique(name) };
        self.known.insert(path.to_owned(), (kind, name.clone()));
        Ok((kind, name))
    }

    /// Returns the owner of a file's code, which the user's list of packages may change. JAX's code
    /// stays JAX's.
    fn owner(&self, path: &str, kind: FrameKind, name: &str) -> FrameKind {
        if !matches!(kind, FrameKind::User | FrameKind::Library) {
            return kind;
        }
        let module = self.imports.as_ref().and_then(|imports| imports.modules.get(path));
        let is_in = |package: &str| {
            let below = |name: &str, separator: char| {
                let rest = name.strip_prefix(package);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(separator))
            };
            module.is_some_and(|module| below(module, '.')) || below(&name.replace('/', "."), '.')
        };
        let listed = self.owners.iter().filter(|(package, _)| is_in(package));
        // The longest name is the most specific one.
        listed.max_by_key(|(package, _)| package.len()).map_or(kind, |(_, owner)| *owner)
    }

    /// Returns a name that no other file has: `layers.py`, then `layers.py (2)`.
    fn unique(&mut self, name: String) -> String {
        let count = self.wanted.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} ({count})") }
    }

    /// Returns the paths of the user's files.
    pub fn of_user(&self) -> impl Iterator<Item = &str> {
        let known = self.known.iter().filter(|(_, (kind, _))| *kind == FrameKind::User);
        known.map(|(path, _)| path.as_str())
    }

    /// Returns the name of the module that was loaded from a file.
    #[must_use]
    pub fn module(&self, path: &str) -> Option<&str> {
        self.imports.as_ref()?.modules.get(&*plain(path)).map(String::as_str)
    }
}

/// Folders of this package with code that is exported, and its owner: models count as the user's,
/// their layers as a library's.
const EXPORTED: [(&str, FrameKind); 2] =
    [("families/layers/", FrameKind::Library), ("families/", FrameKind::User)];

/// The folders that determine who owns a file. Each ends with a slash.
#[derive(Debug)]
pub struct Roots {
    /// The working directory.
    pub working: String,
    /// The folders of JAX's packages.
    pub jax: Vec<String>,
    /// The folder of this package.
    pub converter: Option<String>,
    /// The folder of Python's standard library.
    pub standard: Option<String>,
    /// The user's home directory.
    pub home: Option<String>,
    /// Returns `true` if a folder is the root of a project.
    pub is_project: fn(&str) -> bool,
}

impl Roots {
    /// Returns the owner of the file at a plain path, and its name. Returns `None` for a file of
    /// the user that cannot be named relative to the working directory.
    fn relative(&self, path: &str) -> Option<(FrameKind, String)> {
        const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];
        let installed =
            INSTALLED.iter().find_map(|dir| path.rsplit_once(dir)).map(|(_, rest)| rest);
        let from_package = |root: &str| {
            let parent = root.trim_end_matches('/').rsplit_once('/');
            path[parent.map_or(0, |(dir, _)| dir.len() + 1)..].to_owned()
        };
        if let Some((root, rest)) =
            self.converter.as_ref().and_then(|root| Some((root, below(root, path)?)))
        {
            let exported = EXPORTED.iter().find(|(folder, _)| rest.starts_with(folder));
            let kind = exported.map_or(FrameKind::Converter, |(_, kind)| *kind);
            return Some((kind, from_package(root)));
        }
        if let Some(root) = self.jax.iter().find(|root| below(root, path).is_some()) {
            return Some((FrameKind::Jax, from_package(root)));
        }
        if let Some(rest) = installed {
            return Some((FrameKind::Library, rest.to_owned()));
        }
        if path.starts_with("<frozen ") && !path.contains(SEPARATORS) {
            return Some((FrameKind::Library, path.to_owned()));
        }
        if let Some(rest) = self.standard.as_ref().and_then(|root| below(root, path)) {
            return Some((FrameKind::Library, rest.to_owned()));
        }
        let name = below(&self.working, path).filter(|_| self.may_name(&self.working, path))?;
        Some((FrameKind::User, name.to_owned()))
    }

    /// Returns the name of a user's file that cannot be named relative to the working directory.
    fn outside(&self, path: &str, imports: &Imports) -> String {
        imports
            .cell(path)
            .or_else(|| self.in_project(path))
            .or_else(|| imports.module(path).filter(|name| !self.reveals_home(path, name)))
            .or_else(|| imports.below_search(path, |folder| self.may_name(folder, path)))
            .unwrap_or_else(|| base_name(path))
    }

    /// Returns the name of a file relative to its project, if the file is below the working
    /// directory.
    fn in_project(&self, path: &str) -> Option<String> {
        below(&self.working, path)?;
        let ends = path.rmatch_indices('/').map(|(at, _)| at + 1);
        let mut folders = ends.map(|end| &path[..end]).take_while(|f| self.may_name(f, path));
        let project = folders.find(|folder| (self.is_project)(folder))?;
        below(project, path).map(str::to_owned)
    }

    /// Returns `true` if a file may be named relative to the enclosing `folder`. The folder must
    /// not be the root of a file system or an ancestor of the home directory that contains the
    /// file.
    fn may_name(&self, folder: &str, path: &str) -> bool {
        let is_root = !folder.trim_end_matches('/').contains('/');
        !is_root && self.home_of(path).is_none_or(|home| folder.len() >= home)
    }

    /// Returns `true` if `name` is a suffix of the path that begins above the file's home
    /// directory.
    fn reveals_home(&self, path: &str, name: &str) -> bool {
        let start = path.strip_suffix(name).map(str::len);
        matches!((start, self.home_of(path)), (Some(start), Some(home)) if start < home)
    }

    /// Returns the length of the path of the home directory that contains a file: this user's, or
    /// one in a conventional location.
    fn home_of(&self, path: &str) -> Option<usize> {
        let own = self.home.as_ref().filter(|home| home.trim_end_matches('/').contains('/'));
        let own = own.filter(|home| below(home, path).is_some()).map(String::len);
        let parts: Vec<&str> = path.split('/').take(6).collect();
        let is = |part: &str, name: &str| part.eq_ignore_ascii_case(name);
        let depth = match parts.as_slice() {
            ["", "root", _, ..] => Some(2),
            [_, users, _, _, ..] if is(users, "home") || is(users, "users") => Some(3),
            ["", "export" | "var" | "usr", "home", _, _, ..] => Some(4),
            ["", "mnt", _, users, _, _, ..] if is(users, "users") => Some(5),
            _ => None,
        };
        let usual = depth.map(|depth| parts[..depth].iter().map(|part| part.len() + 1).sum());
        own.max(usual)
    }
}

/// Python's import state: loaded modules, search folders and notebook cells.
#[derive(Debug, Default)]
pub struct Imports {
    modules: FxHashMap<String, String>,
    search: Vec<String>,
    cells: FxHashMap<String, i64>,
}

impl Imports {
    /// Records a module that was loaded from a file. The first module of a file wins.
    pub fn add_module(&mut self, file: &str, name: String) {
        self.modules.entry(plain(file).into_owned()).or_insert(name);
    }

    /// Records a folder that Python searches for modules.
    pub fn add_search(&mut self, folder: &str, working: &str) {
        let folder = as_folder(folder);
        let is_absolute = folder.starts_with('/') || has_drive(&folder);
        let folder = if is_absolute { folder } else { format!("{working}{folder}") };
        self.search.push(as_folder(&folder));
    }

    /// Records the number of a notebook cell, and the path that its code has.
    pub fn add_cell(&mut self, path: &str, number: i64) {
        self.cells.insert(plain(path).into_owned(), number);
    }

    fn cell(&self, path: &str) -> Option<String> {
        self.cells.get(path).map(|number| format!("In [{number}]"))
    }

    fn module(&self, path: &str) -> Option<String> {
        let folder = self.modules.get(path)?.replace('.', "/");
        let file = base_name(path);
        let is_package = matches!(&*file, "__init__.py" | "__main__.py");
        if is_package && !folder.ends_with("__main__") {
            return Some(format!("{folder}/{file}"));
        }
        // A module's name may differ from its file's.
        Some(match folder.rsplit_once('/') {
            Some((up, _)) => format!("{up}/{file}"),
            None => file,
        })
    }

    /// Returns the path of a file relative to the nearest search folder that `fits`.
    fn below_search(&self, path: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
        let folders = self.search.iter().filter(|folder| fits(folder));
        let below = folders.filter_map(|folder| below(folder, path));
        below.min_by_key(|rest| rest.len()).map(str::to_owned)
    }
}

/// Returns the folder that contains a file.
#[must_use]
pub fn folder_of(file: &str) -> Option<String> {
    plain(file).rsplit_once('/').map(|(dir, _)| format!("{dir}/"))
}

/// The separators of path components. Generated code may have a path in the style of any system.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// Returns the last component of a path. Generated code may be called `<made from
/// /home/me/template>`.
fn base_name(path: &str) -> String {
    match path.rsplit_once(SEPARATORS) {
        None => path.to_owned(),
        Some((start, name)) if start.starts_with('<') && name.ends_with('>') => format!("<{name}"),
        Some((_, name)) => name.to_owned(),
    }
}

/// Returns the part of `path` below the folder `root`. Windows paths are case-insensitive.
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

/// Returns the plain path of a folder, with a trailing slash.
#[must_use]
pub fn as_folder(path: &str) -> String {
    let path = plain(path);
    match path.trim_end_matches('/') {
        "" if path.is_empty() => String::new(),
        trimmed => format!("{trimmed}/"),
    }
}

/// Normalises a path: slashes only, and no `.` or `..`, which could lead out of the folder that the
/// path begins with.
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

    fn files() -> FileNames {
        let roots = Roots {
            working: "/home/me/project/".into(),
            jax: vec!["/py/site-packages/jax/".into(), "/src/jaxlib/".into()],
            converter: Some("/home/me/src/jax2onnx/".into()),
            standard: Some("/py/lib/".into()),
            home: Some("/home/me/".into()),
            is_project: |folder| folder.ends_with("/proj/"),
        };
        let mut imports = Imports::default();
        for (path, name) in [
            ("/far/a/layers.py", "pkg.a.layers"),
            ("/far/b/layers.py", "pkg.b.layers"),
            ("/far/pkg/__init__.py", "pkg"),
            ("/odd/impl_v2.py", "pkg.model"),
        ] {
            imports.add_module(path, name.to_owned());
        }
        for folder in ["/opt/code", "/opt/code/src/", r"C:\Users\alice"] {
            imports.add_search(folder, "/home/me/project/");
        }
        imports.add_cell("/tmp/ipykernel_7/336.py", 7);
        FileNames { imports: Some(imports), ..FileNames::new(roots, false) }
    }

    fn assert_named(files: &mut FileNames, path: &str, kind: FrameKind, name: &str) {
        let found = files.classify(path, |_| Ok::<_, ()>(Imports::default())).unwrap();
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
            ("/home/me/src/jax2onnx/families/x.py", FrameKind::User, "jax2onnx/families/x.py"),
            (
                "/home/me/src/jax2onnx/families/layers/x.py",
                FrameKind::Library,
                "jax2onnx/families/layers/x.py",
            ),
            (r"C:\Users\alice\deep\g.py", FrameKind::User, "deep/g.py"),
            (r"c:\users\ALICE\h.py", FrameKind::User, "h.py"),
            (r"c:\users\ALICE\deep\g2.py", FrameKind::User, "deep/g2.py"),
            (r"/home/me/project/odd\name.py", FrameKind::User, r"odd\name.py"),
            (r"D:\work\..\work\i.py", FrameKind::User, "i.py"),
            (r"\\server\alice\j.py", FrameKind::User, "j.py"),
            (r"\\?\C:\Users\alice\k.py", FrameKind::User, "k.py"),
            (r"\\?\UNC\server\alice\l.py", FrameKind::User, "l.py"),
            (r"C:\Python\Lib\site-packages\flax\m.py", FrameKind::Library, "flax/m.py"),
            ("<frozen runpy>", FrameKind::Library, "<frozen runpy>"),
            ("<frozen /home/alice/n>", FrameKind::User, "<n>"),
            (r"<made from C:\Users\alice\o.html>", FrameKind::User, "<o.html>"),
            (r"..\alice\p.py", FrameKind::User, "p.py"),
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
    fn users_choose_who_owns_a_package() {
        let chosen = ["flax.nnx", "-flax.nnx.nn", "-pkg", "pkg.a", "jax"].map(str::to_owned);
        let mut files = files().with_owners(&chosen);
        for (path, kind, name) in [
            ("/py/site-packages/flax/nnx/x.py", FrameKind::User, "flax/nnx/x.py"),
            ("/py/site-packages/flax/nnx/nn/y.py", FrameKind::Library, "flax/nnx/nn/y.py"),
            ("/py/site-packages/flax/nnxx.py", FrameKind::Library, "flax/nnxx.py"),
            ("/far/b/layers.py", FrameKind::Library, "pkg/b/layers.py"),
            ("/far/a/layers.py", FrameKind::User, "pkg/a/layers.py"),
            ("/py/site-packages/jax/x.py", FrameKind::Jax, "jax/x.py"),
            ("/home/me/project/own.py", FrameKind::User, "own.py"),
        ] {
            assert_named(&mut files, path, kind, name);
        }
    }

    /// Returns the names of files in the working directory `working`, which is also a search
    /// folder.
    fn names_in(working: &str, paths: &[&str]) -> Vec<String> {
        let mut files = files();
        files.roots.working = working.to_owned();
        let mut imports = Imports::default();
        imports.add_search("", working);
        imports.add_search("/srv/app", working);
        imports.add_module("/home/alice/spaces/model.py", "home.alice.spaces.model".to_owned());
        imports.add_cell("/tmp/ipykernel_7/336.py", 7);
        files.imports = Some(imports);
        let none = |_: &str| Ok::<_, ()>(Imports::default());
        paths.iter().map(|path| files.classify(path, none).unwrap().1).collect()
    }

    #[test]
    fn a_working_directory_around_home_directories_names_no_files() {
        let paths = [
            "/home/alice/proj/model.py",
            "/home/alice/proj/src/pkg/layers.py",
            "/home/alice/other/a.py",
            "/home/alice/spaces/model.py",
            "/home/alice/b.py",
            "/Users/alice/c.py",
            "/root/d.py",
            "/mnt/c/Users/alice/e.py",
            "/srv/app/tools/f.py",
            "/data/g.py",
            "/tmp/ipykernel_7/336.py",
            "/home/alice/<generated>",
        ];
        let short = ["a.py", "model.py (2)", "b.py", "c.py", "d.py", "e.py"];
        let rest = ["tools/f.py", "g.py", "In [7]", "<generated>"];
        let expected: Vec<&str> =
            ["model.py", "src/pkg/layers.py"].into_iter().chain(short).chain(rest).collect();
        assert_eq!(names_in("/", &paths), expected);
        assert_eq!(names_in("/home/", &paths[..3]), expected[..3]);
        assert_eq!(names_in("C:/", &[r"C:\Users\alice\proj\x\h.py"]), ["x/h.py"]);
        assert_eq!(names_in("C:/Users/", &[r"C:\Users\alice\h.py"]), ["h.py"]);
    }

    #[test]
    fn folders_in_a_home_directory_and_outside_of_all_name_files() {
        assert_eq!(names_in("/home/alice/", &["/home/alice/other/a.py"]), ["other/a.py"]);
        assert_eq!(names_in("/srv/", &["/srv/app/tools/f.py"]), ["app/tools/f.py"]);
        assert_eq!(names_in("/root/", &["/root/proj/a.py"]), ["proj/a.py"]);
    }

    #[test]
    fn two_files_are_two_names() {
        let mut files = files();
        for _ in 0..2 {
            assert_named(&mut files, "/x/c.py", FrameKind::User, "c.py");
            assert_named(&mut files, "/y/c.py", FrameKind::User, "c.py (2)");
        }
    }

    #[test]
    fn imports_are_asked_for_when_a_file_needs_them() {
        let mut files = FileNames { imports: None, ..files() };
        let mut asked = Vec::new();
        let mut classify = |files: &mut FileNames, path: &str| {
            let known = |working: &str| {
                asked.push((path.to_owned(), working.to_owned()));
                Ok::<_, ()>(Imports::default())
            };
            files.classify(path, known).unwrap().1
        };
        assert_eq!(classify(&mut files, "/home/me/project/a.py"), "a.py");
        assert_eq!(classify(&mut files, "/far/b.py"), "b.py");
        assert_eq!(classify(&mut files, "/far/c.py"), "c.py");
        let mut owned =
            FileNames { imports: None, ..self::files() }.with_owners(&["pkg".to_owned()]);
        assert_eq!(classify(&mut owned, "/home/me/project/d.py"), "d.py");
        let working = "/home/me/project/".to_owned();
        assert_eq!(
            asked,
            [
                ("/far/b.py".to_owned(), working.clone()),
                ("/home/me/project/d.py".to_owned(), working)
            ]
        );
    }

    #[test]
    fn files_of_the_user_and_modules_are_listed() {
        let mut files = files();
        for path in ["/home/me/project/a.py", "/py/lib/functools.py", "/py/site-packages/jax/x.py"]
        {
            files.classify(path, |_| Ok::<_, ()>(Imports::default())).unwrap();
        }
        assert_eq!(files.of_user().collect::<Vec<_>>(), ["/home/me/project/a.py"]);
        assert_eq!(files.module("/far/x/../a/layers.py"), Some("pkg.a.layers"));
        assert_eq!(files.module("/far/c/layers.py"), None);
    }

    #[test]
    fn folders_end_with_one_slash() {
        for (path, folder) in
            [("", ""), ("/", "/"), ("a", "a/"), ("/a//", "/a/"), (r"C:\a", "C:/a/")]
        {
            assert_eq!(as_folder(path), folder, "{path}");
        }
        assert_eq!(folder_of("/a/b/../c.py").as_deref(), Some("/a/"));
        assert_eq!(folder_of("c.py"), None);
    }
}
