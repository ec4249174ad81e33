//! Lends the graph to passes and rewrites: counts fuel, verifies, and blames whoever fails.

use std::ops::{Deref, DerefMut};

use onnx::{Graph, NodeId, Use, ValueId};
use provenance::{Origins, Stage};
use rustc_hash::FxHashMap;

use crate::rewrite::{Match, Memory};
use crate::runner::Rule;
use crate::{Error, Forms, Missed, Options, Problem, Report, Skip, Verify};

/// An editor that lends the graph to passes and rewrites.
#[derive(Debug)]
pub(crate) struct Editor<'a> {
    edit: onnx::Editor<'a>,
    fuel: u64,
    options: Options,
    report: Report,
    /// The operators that were nearly recognised at a node, and the reason why they were not.
    missed: FxHashMap<NodeId, (&'static str, String)>,
    memory: Memory,
}

impl<'a> Editor<'a> {
    pub(crate) fn new(graph: &'a mut Graph, origins: &'a mut Origins, options: &Options) -> Self {
        Self {
            edit: onnx::Editor::new(graph, origins, Stage::Rewrite),
            fuel: options.fuel.unwrap_or(u64::MAX),
            options: options.clone(),
            report: Report::default(),
            missed: FxHashMap::default(),
            memory: Memory::default(),
        }
    }

    /// Returns the forms of operators.
    pub(crate) fn forms(&self) -> &Forms {
        &self.options.forms
    }

    /// Takes one unit of fuel for `name`. Returns `false` if the fuel is used up, so that nothing
    /// may be changed.
    pub(crate) fn spend(&mut self, name: &'static str) -> bool {
        if self.fuel == 0 {
            return false;
        }
        self.fuel -= 1;
        *self.report.applied.entry(name).or_default() += 1;
        true
    }

    /// Verifies the graph if the options request verification as often as `when`. Blames `name` for
    /// errors.
    pub(crate) fn verify(&self, name: &'static str, when: Verify) -> Result<(), Error> {
        if self.options.verify > when {
            return Ok(());
        }
        onnx::verify(self.graph(), self.options.opset).map_err(|error| Error {
            rewrite: name,
            origin: None,
            problem: Problem::Invalid(error),
        })
    }

    /// Returns an error of `rewrite` at `root`.
    pub(crate) fn error(&self, rewrite: &'static str, root: NodeId, problem: Problem) -> Error {
        Error { rewrite, origin: self.graph().get(root).map(|node| node.origin), problem }
    }

    /// Returns the report.
    pub(crate) fn finish(mut self) -> Report {
        let missed = std::mem::take(&mut self.missed).into_iter();
        let mut missed: Vec<_> = missed
            .filter_map(|(node, (op, reason))| {
                let origin = self.graph().get(node)?.origin;
                Some((node, Missed { op, reason, origin }))
            })
            .collect();
        missed.sort_unstable_by_key(|(node, _)| *node);
        self.report.missed = missed.into_iter().map(|(_, missed)| missed).collect();
        self.report
    }

    /// Tries rules at one node until one applies, and returns its name.
    pub(crate) fn attempt<R: Rule>(
        &mut self,
        rules: &[&R],
        root: NodeId,
    ) -> Result<Option<&'static str>, Error> {
        let glance = R::glance(self.graph(), self.graph().node(root));
        let mark = self.edit.mark();
        let builder = self.edit.builder("", root);
        let mut found = Match::new(builder, &self.options.forms, &mut self.memory, root, mark);
        for rule in rules {
            if !rule.may_apply(found.graph(), found.root(), &glance) {
                continue;
            }
            if self.fuel == 0 {
                break;
            }
            let name = rule.name();
            match found.attempt(name, |m| rule.try_at(m)) {
                Ok(with) => {
                    let Match { others, left_out, .. } = found;
                    let fresh = self.edit.added_since(mark);
                    for (node, reason) in left_out {
                        self.miss(node, name, &reason);
                    }
                    self.spend(name);
                    let origin = self.graph().node(root).origin;
                    for (node, value) in others {
                        self.replace_other(name, root, node, value)?;
                    }
                    self.replace(name, root, &with, &fresh)?;
                    let verified = self.verify(name, Verify::EachRewrite);
                    verified.map_err(|error| Error { origin: Some(origin), ..error })?;
                    return Ok(Some(name));
                }
                Err(Skip::Failed(error)) => {
                    return Err(self.error(name, root, Problem::Node(error)));
                }
                Err(Skip::Because(reason)) => count_skip(&mut self.report, name, reason),
                Err(Skip::Missed(reason)) => {
                    if self.options.report_missed {
                        // The first attempt has the most informative reason.
                        self.missed.entry(root).or_insert((name, reason));
                    }
                    count_skip(&mut self.report, name, "it was missed");
                }
            }
        }
        Ok(None)
    }

    /// Reports that `op` could not become one node. Later reports override earlier ones, because
    /// they follow more clean-ups.
    pub(crate) fn miss(&mut self, node: NodeId, op: &'static str, reason: &str) {
        if self.options.report_missed {
            self.missed.insert(node, (op, reason.to_owned()));
        }
    }

    /// Replaces the results of `root` as [`onnx::Editor::replace`] does, and blames `name` if that fails.
    pub(crate) fn replace(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
        fresh: &[NodeId],
    ) -> Result<(), Error> {
        let replaced = self.edit.replace(name, root, with, fresh);
        replaced.map_err(|error| self.error(name, root, error.into()))
    }

    /// Replaces the results of `root` as [`onnx::Editor::unite`] does, and blames `name` if that fails.
    pub(crate) fn unite(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
    ) -> Result<(), Error> {
        let united = self.edit.unite(name, root, with);
        united.map_err(|error| self.error(name, root, error.into()))
    }

    /// Replaces the result of `node`, which comes before `root`, by `value`. Readers that only change the layout of
    /// what the block returns are moved behind it.
    fn replace_other(
        &mut self,
        name: &'static str,
        root: NodeId,
        node: NodeId,
        value: ValueId,
    ) -> Result<(), Error> {
        let graph = self.graph();
        let returned = |id: &NodeId| {
            let mut uses = graph.node(*id).outputs.iter().flat_map(|v| graph.value(*v).uses());
            graph.node(*id).is_movement() && uses.all(|place| matches!(place, Use::Output(..)))
        };
        let readers: Vec<NodeId> = graph.consumers(node).filter(returned).collect();
        readers.into_iter().for_each(|reader| self.edit.move_node(reader, root));
        self.unite(name, node, &[value])
    }

    /// Replaces the results of `root` as [`onnx::Editor::choose`] does, and blames `name` if that fails.
    pub(crate) fn choose(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
    ) -> Result<(), Error> {
        let chosen = self.edit.choose(name, root, with);
        chosen.map_err(|error| self.error(name, root, error.into()))
    }
}

impl<'a> Deref for Editor<'a> {
    type Target = onnx::Editor<'a>;

    fn deref(&self) -> &Self::Target {
        &self.edit
    }
}

impl DerefMut for Editor<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.edit
    }
}

/// Counts the reasons why rewrites skip nodes. Only tests read them.
#[cfg_attr(not(test), expect(unused_variables, reason = "only tests ask"))]
fn count_skip(report: &mut Report, rule: &'static str, reason: &'static str) {
    #[cfg(test)]
    {
        *report.skipped.entry((rule, reason)).or_default() += 1;
    }
}
