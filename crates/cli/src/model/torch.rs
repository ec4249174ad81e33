//! Origins of nodes in the metadata that `torch.onnx` writes.

use std::borrow::Cow;

use onnx_file::proto::StringStringEntryProto;
use provenance::Span;

use super::open::property;
use super::{Frame, Origin};
use crate::log::quoted;

/// Key of a node's frames, outermost first, in the format of a Python traceback.
const STACK: &str = "pkg.torch.onnx.stack_trace";
/// Key of a Python list of the names of the modules, outermost first, and of the node.
const SCOPES: &str = "pkg.torch.onnx.name_scopes";
/// Key of a Python list of the classes of these modules, and of the operator.
const CLASSES: &str = "pkg.torch.onnx.class_hierarchy";

/// Returns the origin in the metadata of a node; `None` if another program wrote it.
pub(super) fn origin(props: &[StringStringEntryProto]) -> Option<Origin<'_>> {
    let stack = frames(property(props, STACK).unwrap_or_default());
    let scope = scope(props);
    let classes = property(props, CLASSES).map(quoted).unwrap_or_default();
    if stack.is_empty() && scope.is_none() && classes.is_empty() {
        return None;
    }
    let site = stack.iter().find(|frame| frame.is_user).or_else(|| stack.first()).copied();
    Some(Origin {
        site,
        scope: scope.unwrap_or_default(),
        rule: classes.last().copied().unwrap_or_default().to_owned(),
        stack,
        ..Origin::default()
    })
}

/// Returns the module of a node: `blocks.0/up` for `['', 'blocks.0', 'blocks.0.up', 'linear']`.
pub(super) fn scope(props: &[StringStringEntryProto]) -> Option<Cow<'_, str>> {
    let scopes = quoted(property(props, SCOPES)?);
    let (_, modules) = scopes.split_last()?;
    let (mut path, mut outer) = (String::new(), "");
    for module in modules.iter().filter(|module| !module.is_empty()) {
        let inner = module.strip_prefix(outer).and_then(|rest| rest.strip_prefix('.'));
        let own = inner.filter(|_| !outer.is_empty()).unwrap_or(module);
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(own);
        outer = module;
    }
    Some(Cow::Owned(path))
}

/// Returns the frames of a traceback, innermost first.
fn frames(text: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = text.lines().filter_map(frame).collect();
    frames.reverse();
    frames
}

/// Parses `File "model.py", line 14, in forward`.
fn frame(line: &str) -> Option<Frame<'_>> {
    let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    let line = number.parse().ok()?;
    let installed = ["/site-packages/", "/dist-packages/", "/lib/python"];
    let path = file.replace('\\', "/");
    Some(Frame {
        file,
        function,
        span: Span { line, column: 0, end_line: line, end_column: 0 },
        is_user: !installed.iter().any(|folder| path.contains(folder)),
        is_jax: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn props(pairs: &[(&str, &str)]) -> Vec<StringStringEntryProto> {
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        pairs.iter().map(entry).collect()
    }

    #[test]
    fn the_line_is_the_users() {
        let stack = "File \"net.py\", line 25, in forward\n    x = x + block(x)\n  File \
                     \"/v/lib/site-packages/torch/nn/linear.py\", line 134, in forward\n    return F";
        let props = props(&[
            (STACK, stack),
            (SCOPES, "['', 'blocks.0', 'blocks.0.up', 'linear']"),
            (CLASSES, "['Net', 'Mlp', 'Linear', 'aten.linear.default']"),
        ]);
        let origin = origin(&props).unwrap();
        assert_eq!(origin.site.unwrap().place(), "net.py:25");
        assert_eq!(origin.stack.len(), 2);
        assert_eq!((&*origin.scope, origin.rule.as_str()), ("blocks.0/up", "aten.linear.default"));
    }

    #[test]
    fn unreadable_metadata_is_omitted() {
        assert_eq!(origin(&props(&[("other", "x")])), None);
        let damaged = props(&[(STACK, "File \"a\", line x"), (SCOPES, "[']"), (CLASSES, "")]);
        assert!(origin(&damaged).is_none_or(|origin| origin.site.is_none()));
        for text in ["File \"", "File \"a\", line 1", "\u{e9}"] {
            frames(text);
        }
    }

    #[test]
    fn any_of_the_entries_is_enough() {
        let stack = "File \"net.py\", line 25, in forward";
        let known = |entries: &[(&str, &str)]| {
            let props = props(entries);
            origin(&props)
                .map(|origin| (origin.scope.into_owned(), origin.rule, origin.stack.len()))
        };
        assert_eq!(known(&[(STACK, stack)]), Some((String::new(), String::new(), 1)));
        assert_eq!(
            known(&[(SCOPES, "['', 'up', 'x']")]),
            Some(("up".to_owned(), String::new(), 0))
        );
        assert_eq!(
            known(&[(CLASSES, "['Net', 'add']")]),
            Some((String::new(), "add".to_owned(), 0))
        );
    }
}
