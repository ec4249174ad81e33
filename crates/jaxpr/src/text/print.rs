//! The printer of programs.

use std::fmt::Write as _;

use indexmap::IndexMap;
use provenance::{StackId, Stacks};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use tensor::{DType, Tensor};

use super::jaxpr::{KEYWORDS, UNUSED, WHERE};
use super::lines::Writer;
use super::token::{is_number_word, name, quoted};
use super::{array, param};
use crate::{Atom, Constant, Eqn, Jaxpr, JaxprId, Param, Params, Program, VarId};

/// The input of [`print()`].
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a> {
    /// The settings of the conversion; may be empty.
    pub header: &'a Params,
    /// The program.
    pub program: &'a Program,
    /// The stacks that its equations refer to, if they are to be printed.
    pub stacks: Option<&'a Stacks>,
    /// The stack of the call to the converter.
    pub entry: Option<StackId>,
    /// `true` to print the values of parameters and other large arrays.
    pub weights: bool,
}

/// Prints a program as text.
pub fn print(printed: &Printed<'_>) -> String {
    let mut printer = Printer {
        program: printed.program,
        weights: printed.weights,
        lines: printed.stacks.map(Writer::new),
        order: Vec::new(),
        heights: FxHashMap::default(),
        calls: FxHashMap::default(),
        definitions: FxHashMap::default(),
        arrays: IndexMap::default(),
        out: String::new(),
    };
    if let Some(main) = printed.program.main {
        printer.run(main, printed.header);
    }
    let lines = printer.lines.map(|lines| lines.sections(printed.entry));
    printer.out + &lines.unwrap_or_default()
}

/// The identity of an array: the address, number and type of its bytes.
type Key = (usize, usize, DType);

/// An array that constants hold.
#[derive(Debug)]
struct Array<'a> {
    tensor: &'a Tensor,
    /// The number of constants that hold it.
    uses: usize,
    is_parameter: bool,
    /// The shapes that are listed before the jaxprs, with their numbers.
    listed: IndexMap<&'a [usize], usize, FxBuildHasher>,
}

#[derive(Debug)]
struct Printer<'a> {
    program: &'a Program,
    weights: bool,
    lines: Option<Writer<'a>>,
    /// All jaxprs that are called, callees first.
    order: Vec<JaxprId>,
    heights: FxHashMap<JaxprId, usize>,
    calls: FxHashMap<JaxprId, usize>,
    /// The numbers of the jaxprs that are defined before the main one.
    definitions: FxHashMap<JaxprId, usize>,
    arrays: IndexMap<Key, Array<'a>, FxBuildHasher>,
    out: String,
}

/// The maximum nesting depth of jaxprs in the text.
const NESTED: usize = 16;

/// Arrays of fewer bytes than this are printed as numbers.
const NUMBERS: usize = 512;

/// The maximum length of an equation's parameters on one line.
const LINE: usize = 72;

/// Integers and booleans of at most this many bytes are part of the code rather than weights.
const TABLE: usize = 4096;

impl<'a> Printer<'a> {
    fn run(&mut self, main: JaxprId, header: &Params) {
        self.visit(main);
        self.collect_arrays();
        if !header.0.is_empty() {
            let fields: Vec<_> =
                header.0.iter().map(|(key, value)| self.field(key, value, 1)).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(self.out, "model[\n  {}\n]", fields.join("\n  "));
        }
        for constraint in self.program.constraints.texts() {
            let _ = writeln!(self.out, "{WHERE} {}", quoted(constraint));
        }
        self.list_arrays();
        for id in std::mem::take(&mut self.order) {
            let is_shared = self.calls.get(&id).is_some_and(|calls| *calls > 1);
            if id != main && (is_shared || self.heights[&id] % NESTED == NESTED - 1) {
                let number = self.definitions.len();
                let text = self.jaxpr(id, 0);
                self.definitions.insert(id, number);
                let _ = writeln!(self.out, "@{number} = {text}");
            }
        }
        let text = self.jaxpr(main, 0);
        let _ = writeln!(self.out, "{text}");
    }

    /// Counts the calls of a jaxpr and its callees. Returns its height.
    fn visit(&mut self, id: JaxprId) -> usize {
        *self.calls.entry(id).or_default() += 1;
        if let Some(known) = self.heights.get(&id) {
            return *known;
        }
        let mut height = 0;
        for eqn in &self.program.jaxpr(id).eqns {
            for inner in eqn.params.jaxprs() {
                height = height.max(self.visit(inner) + 1);
            }
        }
        self.heights.insert(id, height);
        self.order.push(id);
        height
    }

    fn collect_arrays(&mut self) {
        let program = self.program;
        for (_, Constant { tensor, name }) in
            self.order.iter().flat_map(|id| &program.jaxpr(*id).consts)
        {
            let array = self.arrays.entry(key(tensor)).or_insert_with(|| Array {
                tensor,
                uses: 0,
                is_parameter: false,
                listed: IndexMap::default(),
            });
            array.uses += 1;
            array.is_parameter |= name.is_some();
            if tensor.is_empty() {
                continue;
            }
            if array.uses > 1 || (self.weights && tensor.byte_len() >= NUMBERS) {
                array.listed.entry(tensor.shape()).or_default();
            }
            if array.uses > 1 {
                array.listed.entry(array.tensor.shape()).or_default();
            }
        }
    }

    fn list_arrays(&mut self) {
        let mut number = 0;
        let mut arrays = std::mem::take(&mut self.arrays);
        for array in arrays.values_mut() {
            let mut first = None;
            for (shape, at) in &mut array.listed {
                let Ok(view) = array.tensor.reshaped(shape) else { continue };
                *at = number;
                let data = match first {
                    Some(first) => format!("%{first}"),
                    None => self.data(&view, array.is_parameter),
                };
                first.get_or_insert(number);
                // Writing to a string cannot fail.
                let _ = writeln!(self.out, "%{number} = {} {data}", view.ty());
                number += 1;
            }
        }
        self.arrays = arrays;
    }

    /// Formats the elements of an array, or `...` if they are left out.
    fn data(&self, tensor: &Tensor, is_parameter: bool) -> String {
        let bytes = tensor.byte_len();
        let is_code = !is_parameter
            && (!Constant::is_large(tensor) || (bytes <= TABLE && !is_float(tensor.dtype())));
        if !tensor.is_known() || (!self.weights && !is_code && bytes > 0) {
            return "...".to_owned();
        }
        match array::base64(tensor).filter(|_| bytes >= NUMBERS && self.weights) {
            Some(text) => format!("base64 {}", quoted(&text)),
            None => array::elements(tensor),
        }
    }

    fn literal(&self, tensor: &Tensor) -> String {
        let text = array::scalar(tensor).unwrap_or_else(|| self.data(tensor, false));
        format!("{text}:{}", tensor.ty())
    }

    /// Formats a jaxpr. All lines but the first are indented by `depth` levels.
    fn jaxpr(&mut self, id: JaxprId, depth: usize) -> String {
        let program = self.program;
        let jaxpr: &'a Jaxpr = program.jaxpr(id);
        let names = Names::new(jaxpr);
        let indent = "  ".repeat(depth);
        let declared = |var: VarId| format!("{}:{}", names.get(var), jaxpr.ty(var));
        let consts = jaxpr.consts.iter().map(|(var, constant)| {
            let label = constant.name.as_ref().map(|name| format!(" {}", quoted(name)));
            format!("{}{} = {}", declared(*var), label.unwrap_or_default(), self.constant(constant))
        });
        let consts: Vec<String> = consts.collect();
        let inputs: Vec<String> = jaxpr.inputs.iter().map(|var| declared(*var)).collect();
        let mut text = format!("{{ lambda {}; {}. let", consts.join(" "), inputs.join(" "));
        for eqn in &jaxpr.eqns {
            let outputs: String = eqn.outputs.iter().map(|var| declared(*var) + " ").collect();
            let body = self.eqn(eqn, &names, depth + 2);
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{indent}    {outputs}= {body}");
        }
        let results: Vec<_> = jaxpr.outputs.iter().map(|atom| self.atom(atom, &names)).collect();
        let comma = if results.len() == 1 { "," } else { "" };
        let _ = write!(text, "\n{indent}  in ({}{comma}) }}", results.join(", "));
        text
    }

    fn constant(&self, constant: &Constant) -> String {
        let array = self.arrays.get(&key(&constant.tensor));
        match array.and_then(|array| array.listed.get(constant.tensor.shape())) {
            Some(number) => format!("%{number}"),
            None => self.data(&constant.tensor, constant.name.is_some()),
        }
    }

    fn atom(&self, atom: &Atom, names: &Names) -> String {
        match atom {
            Atom::Var(var) => names.get(*var),
            Atom::Literal(tensor) => self.literal(tensor),
        }
    }

    fn eqn(&mut self, eqn: &'a Eqn, names: &Names, depth: usize) -> String {
        let mut text = name(&eqn.primitive);
        let fields = eqn.params.0.iter().map(|(key, value)| self.field(key, value, depth + 1));
        let fields: Vec<String> = fields.collect();
        let length: usize = fields.iter().map(|field| field.len() + 1).sum();
        let is_short = length <= LINE && !fields.iter().any(|field| field.contains('\n'));
        if !fields.is_empty() && is_short {
            text += &format!("[{}]", fields.join(" "));
        } else if !fields.is_empty() {
            let indent = "  ".repeat(depth);
            let fields: String =
                fields.iter().map(|field| format!("\n{indent}  {field}")).collect();
            text += &format!("[{fields}\n{indent}]");
        }
        for atom in &eqn.inputs {
            text.push(' ');
            text += &self.atom(atom, names);
        }
        let mut notes = String::new();
        if !eqn.scope.is_empty() {
            notes += &format!(" {}", quoted(&eqn.scope));
        }
        if let (Some(lines), Some(stack)) = (&mut self.lines, eqn.stack) {
            notes += &format!(" #{}", lines.number(stack));
        }
        if eqn.external.is_some() {
            notes += " external";
        }
        if notes.is_empty() { text } else { format!("{text} ::{notes}") }
    }

    fn field(&mut self, key: &str, value: &Param, depth: usize) -> String {
        format!("{}={}", name(key), self.param(value, depth))
    }

    fn param(&mut self, param: &Param, depth: usize) -> String {
        if let Some(text) = param::plain(param) {
            return text;
        }
        match param {
            Param::Tensor(tensor) => self.literal(tensor),
            Param::Jaxpr(id) => match self.definitions.get(id) {
                Some(number) => format!("@{number}"),
                None => self.jaxpr(*id, depth),
            },
            Param::Fields(fields) => {
                let fields: Vec<_> = fields.iter().map(|(k, v)| self.field(k, v, depth)).collect();
                format!("[{}]", fields.join(" "))
            }
            Param::List(items) => {
                let texts: Vec<_> = items.iter().map(|item| self.param(item, depth)).collect();
                let comma = if items.len() == 1 { "," } else { "" };
                format!("({}{comma})", texts.join(", "))
            }
            _ => String::new(),
        }
    }
}

fn key(tensor: &Tensor) -> Key {
    (tensor.address(), tensor.byte_len(), tensor.dtype())
}

fn is_float(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
}

/// The names of a jaxpr's variables, in the order of definition.
#[derive(Debug)]
struct Names(FxHashMap<VarId, String>);

impl Names {
    fn new(jaxpr: &Jaxpr) -> Self {
        let operands = jaxpr.eqns.iter().flat_map(|eqn| &eqn.inputs).chain(&jaxpr.outputs);
        let read: FxHashSet<VarId> = operands.filter_map(Atom::as_var).collect();
        let consts = jaxpr.consts.iter().map(|(var, _)| *var);
        let made = jaxpr.eqns.iter().flat_map(|eqn| &eqn.outputs).copied();
        let vars = consts.chain(jaxpr.inputs.iter().copied());
        let vars = vars.chain(made.filter(|var| read.contains(var)));
        let words =
            (0..).map(word).filter(|w| !KEYWORDS.contains(&w.as_str()) && !is_number_word(w));
        Self(vars.zip(words).collect())
    }

    fn get(&self, var: VarId) -> String {
        self.0.get(&var).cloned().unwrap_or_else(|| UNUSED.to_owned())
    }
}

/// Returns the name with this number: `a` … `z`, `aa`, `ab` …
fn word(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or_default()));
        match number / 26 {
            0 => break,
            rest => number = rest - 1,
        }
    }
    letters.iter().rev().collect()
}
