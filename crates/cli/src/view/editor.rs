//! Links that open a line in an editor.
//!
//! Pages are meant to be shared, so they contain no absolute paths unless requested. A file is
//! identified by its path relative to the page, if both are below the working directory.

use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;

/// The URL that Visual Studio Code opens.
const DEFAULT: &str = "vscode://file/{path}:{line}";

/// The environment variable with the URL.
pub(crate) const VARIABLE: &str = "JAX2ONNX_EDITOR";

/// The editor links of a page.
#[derive(Debug)]
pub(crate) struct Editor {
    /// The URL, with `{path}` and `{line}`.
    pub(crate) address: String,
    /// Allows absolute paths.
    absolute: bool,
    /// The working directory.
    root: PathBuf,
    /// The folder of the page.
    folder: PathBuf,
}

impl Editor {
    /// Creates the links of the page at `page`, with the URL `given` or that of the environment.
    pub(crate) fn new(given: Option<&str>, page: &Path) -> Result<Self, Failure> {
        let known = std::env::var(VARIABLE).ok().filter(|known| !known.is_empty());
        let address = given.map(str::to_owned).or(known).unwrap_or_else(|| DEFAULT.to_owned());
        let scheme = address.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_plain = |scheme: &String| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                && !["javascript", "data", "vbscript"].contains(&scheme.as_str())
        };
        if !scheme.as_ref().is_some_and(is_plain) || !address.contains("{path}") {
            return Err(Failure::Request(format!(
                "`{address}` is not an editor URL; use one such as `{DEFAULT}`"
            )));
        }
        let root = Path::new(".").canonicalize().unwrap_or_default();
        let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().unwrap_or_default();
        Ok(Self { address, absolute: given.is_some(), root, folder })
    }

    /// Returns the page's reference to the file at `path`: the path relative to the page with `/`
    /// as the separator, or the absolute path if that is allowed.
    pub(super) fn place(&self, path: &Path) -> Option<String> {
        let path = path.canonicalize().ok()?;
        if let (Ok(file), Ok(page)) =
            (path.strip_prefix(&self.root), self.folder.strip_prefix(&self.root))
        {
            let shared =
                file.components().zip(page.components()).take_while(|(a, b)| a == b).count();
            let up = page.components().skip(shared).map(|_| "..".to_owned());
            let down = file.components().skip(shared).map(name);
            return Some(up.chain(down).collect::<Vec<_>>().join("/"));
        }
        let text = path.to_str()?;
        // Windows marks such paths with a prefix that editors do not understand.
        let text = text.strip_prefix(r"\\?\").unwrap_or(text).replace('\\', "/");
        let slash = if text.starts_with('/') { "" } else { "/" };
        self.absolute.then(|| format!("{slash}{text}"))
    }
}

fn name(part: Component<'_>) -> String {
    part.as_os_str().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_and_a_path() {
        let page = Path::new("page.html");
        for good in ["idea://open?file={path}&line={line}", "vscode://file/{path}:{line}"] {
            assert_eq!(Editor::new(Some(good), page).unwrap().address, good);
        }
        for bad in [
            "",
            "{path}",
            "code {path}",
            "javascript:alert('{path}')",
            "vscode://file/",
            "1x:{path}",
            "a b:{path}",
        ] {
            let error = Editor::new(Some(bad), page).unwrap_err().to_string();
            assert!(error.contains("is not an editor URL"), "{error}");
        }
    }

    #[test]
    fn a_file_is_given_by_its_way_from_the_page() {
        let here = Path::new("src").canonicalize().unwrap();
        let editor = Editor::new(None, Path::new("tests/page.html")).unwrap();
        assert_eq!(editor.place(&here.join("lib.rs")).unwrap(), "../src/lib.rs");
        let far = tempfile::tempdir().unwrap();
        let file = far.path().join("model.py");
        std::fs::write(&file, "").unwrap();
        assert_eq!(editor.place(&file), None, "no absolute path is written unasked");
        let asked = Editor::new(Some(DEFAULT), Path::new("tests/page.html")).unwrap();
        let place = asked.place(&file).unwrap();
        assert!(place.starts_with('/') && place.ends_with("/model.py"), "{place}");
    }
}
