//! The library's frames below a line of the user's program.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use rustc_hash::FxHashSet;

use super::{Frame, Index, Origin};
use crate::failure::Failure;

/// The maximum number of frames below a line. Recursion can make stacks very deep.
const DEEPEST: usize = 64;

/// The frames that a line of the user's program unfolds into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Frames {
    /// Only the user's own line.
    User,
    /// The innermost line of a library.
    #[default]
    Library,
    /// All lines of libraries, from the user's line inwards.
    All,
}

/// The options that choose frames.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FrameOptions {
    /// The lines to show below a line of your program: none (`user`), the innermost line of a
    /// library (`library`), or all lines of libraries (`all`).
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) frames: Option<Frames>,
    /// Count only the lines of this package, such as `mujoco.mjx`. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Vec<String>,
}

impl FrameOptions {
    /// Returns `true` if the user chose frames.
    pub(crate) fn is_given(&self) -> bool {
        self.frames.is_some() || !self.package.is_empty()
    }

    /// Returns the chosen frames, or `default`. A package implies its lines. Fails for one that the
    /// model has no lines of.
    pub(crate) fn choice(
        &self,
        default: Frames,
        index: &Index<'_>,
    ) -> Result<FrameChoice, Failure> {
        let choice = self.unchecked(default);
        if !choice.packages.is_empty() {
            let nodes = (0..index.nodes.len()).map(|node| index.origins(node));
            let files: FxHashSet<String> =
                nodes.flat_map(|origins| library_files(&origins)).collect();
            for (name, package) in self.package.iter().zip(&choice.packages) {
                if !files.iter().any(|file| is_in(package, file)) {
                    return Err(Failure::Absent(without_lines(name, &files)));
                }
            }
        }
        Ok(choice)
    }

    fn unchecked(&self, default: Frames) -> FrameChoice {
        let default = if self.package.is_empty() { default } else { Frames::Library };
        let packages = self.package.iter().map(|package| package.replace('.', "/")).collect();
        FrameChoice { frames: self.frames.unwrap_or(default), packages }
    }
}

/// A choice of library frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameChoice {
    frames: Frames,
    packages: Vec<String>,
}

impl From<Frames> for FrameChoice {
    fn from(frames: Frames) -> Self {
        Self { frames, packages: Vec::new() }
    }
}

impl FrameChoice {
    /// Returns the chosen frames below the line that represents an origin, outermost first.
    pub(crate) fn below<'o, 'm>(&self, origin: &'o Origin<'m>) -> Vec<&'o Frame<'m>> {
        let mut found: Vec<&Frame<'m>> =
            origin.library().filter(|frame| self.is_chosen(frame)).collect();
        match self.frames {
            Frames::User => found.clear(),
            Frames::Library => found.truncate(1),
            Frames::All => {
                found.truncate(DEEPEST);
                found.reverse();
            }
        }
        found
    }

    fn is_chosen(&self, frame: &Frame<'_>) -> bool {
        self.packages.is_empty() || self.packages.iter().any(|name| is_in(name, frame.file))
    }
}

/// Returns `true` if a file belongs to a package, whose name is a path.
fn is_in(package: &str, file: &str) -> bool {
    file.strip_prefix(package).is_some_and(|rest| rest.starts_with('/') || rest == ".py")
}

/// Returns the files of libraries that the origins of a node name.
fn library_files(origins: &[Origin<'_>]) -> Vec<String> {
    let all = origins.iter().flat_map(Origin::possible);
    all.flat_map(Origin::library).map(|frame| frame.file.to_owned()).collect()
}

/// Describes a package that a model has no lines of.
fn without_lines(name: &str, files: &FxHashSet<String>) -> String {
    let top = |file: &String| {
        let first = file.split('/').next().unwrap_or_default();
        format!("`{}`", first.strip_suffix(".py").unwrap_or(first))
    };
    let packages: BTreeSet<String> = files.iter().map(top).collect();
    let known = if packages.is_empty() {
        "no line of a library is recorded".to_owned()
    } else {
        format!("it has lines of {}", packages.into_iter().collect::<Vec<_>>().join(", "))
    };
    format!("the model has no line of the package `{name}` below a line of your program; {known}")
}

impl<'m> Origin<'m> {
    /// Returns the frames of libraries that the user's line called, innermost first. There are none
    /// if no frame is the user's.
    pub(crate) fn library(&self) -> impl Iterator<Item = &Frame<'m>> {
        let site = self.site.as_ref().filter(|site| site.is_user);
        let at = site.and_then(|site| self.stack.iter().position(|frame| frame == site));
        let inner = &self.stack[..at.unwrap_or_default()];
        inner.iter().filter(|frame| !frame.is_jax && !frame.file.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use provenance::Span;

    use super::*;

    fn frame(file: &'static str, line: u32) -> Frame<'static> {
        let span = Span { line, column: 0, end_line: line, end_column: 0 };
        let (is_user, is_jax) = (file == "step.py", file.starts_with("jax/"));
        Frame { file, function: "f", span, is_user, is_jax }
    }

    fn below(choice: &FrameOptions, default: Frames) -> Vec<String> {
        let stack = vec![
            frame("jax/_src/numpy.py", 1),
            frame("mujoco/mjx/_src/math.py", 5),
            frame("jax/_src/api.py", 2),
            frame("mujoco/mjx/_src/smooth.py", 88),
            frame("brax/base.py", 7),
            frame("step.py", 12),
            frame("train.py", 3),
        ];
        let origin = Origin { site: Some(stack[5]), stack, ..Origin::default() };
        let choice = choice.unchecked(default);
        choice.below(&origin).into_iter().map(Frame::place).collect()
    }

    #[test]
    fn a_users_line_unfolds_into_the_librarys() {
        let math = "mujoco/mjx/_src/math.py:5";
        let all = ["brax/base.py:7", "mujoco/mjx/_src/smooth.py:88", math];
        let choose = |frames: Option<Frames>, packages: &[&str]| FrameOptions {
            frames,
            package: packages.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(below(&choose(None, &[]), Frames::User), [""; 0]);
        assert_eq!(below(&choose(None, &[]), Frames::Library), [math]);
        assert_eq!(below(&choose(Some(Frames::All), &[]), Frames::User), all);
        assert_eq!(below(&choose(None, &["brax"]), Frames::User), all[..1]);
        assert_eq!(below(&choose(Some(Frames::All), &["mujoco.mjx"]), Frames::User), all[1..]);
        assert_eq!(below(&choose(None, &["muj"]), Frames::User), [""; 0]);
        let given = [choose(None, &[]), choose(Some(Frames::User), &[]), choose(None, &["brax"])];
        assert_eq!(given.map(|options| options.is_given()), [false, true, true]);
    }
}
