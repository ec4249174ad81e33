//! Random programs, and a comparison of programs up to numbering.

use std::sync::Arc;

use provenance::{Frame, FrameKind, Span, StackId};
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Tensor, Type};

use crate::text::Document;
use crate::{Atom, Constant, Eqn, Jaxpr, JaxprId, Param, Params, VarId};

/// A deterministic generator of random numbers (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn dtype(&mut self) -> DType {
        let at = self.below(DType::all().count());
        DType::all().nth(at).unwrap()
    }

    fn text(&mut self) -> Arc<str> {
        const TEXTS: [&str; 8] =
            ["a", "CLIP", "in", "nan", "f32", "two words", "\"quoted\\\n", "scatter-add"];
        TEXTS[self.below(TEXTS.len())].into()
    }

    fn tensor(&mut self) -> Tensor {
        let dtype = self.dtype();
        let rank = self.below(3);
        let shape: Vec<usize> = (0..rank).map(|_| self.below(5)).collect();
        let length = dtype.byte_len(shape.iter().product());
        let mask = if dtype == DType::Bool { 1 } else { 0xff };
        let bytes: Vec<u8> = (0..length).map(|_| self.byte() & mask).collect();
        Tensor::new(dtype, &shape, Arc::new(bytes)).unwrap()
    }

    fn ty(&mut self) -> Type {
        let dims =
            ["b", "4*b + 3", "floordiv(b, 2) + c", "max(b, 2)"].map(|d| Dim::parse(d).unwrap());
        let rank = self.below(3);
        let mut dim = || match self.below(2) {
            0 => Dim::from(self.below(9)),
            _ => dims[self.below(dims.len())].clone(),
        };
        let shape: Vec<Dim> = (0..rank).map(|_| dim()).collect();
        Type::new(self.dtype(), shape)
    }

    fn param(&mut self, inner: usize, depth: usize) -> Param {
        match self.below(if depth > 2 { 9 } else { 13 }) {
            0 => Param::None,
            1 => Param::Bool(self.below(2) == 0),
            2 => Param::Int(i64::from_ne_bytes(self.next().to_ne_bytes()) >> self.below(64)),
            3 => Param::Float(f64::from_bits(self.next())),
            4 => Param::Str(self.text()),
            5 => Param::Enum(self.text()),
            6 => Param::DType(self.dtype()),
            7 => Param::Dim(Dim::parse("4*b + 3").unwrap()),
            8 => Param::Opaque(self.text()),
            9 => Param::Tensor(self.tensor()),
            10 if inner > 0 => Param::Jaxpr(JaxprId(u32::try_from(self.below(inner)).unwrap())),
            11 => {
                let n = self.below(3);
                Param::Fields((0..n).map(|_| (self.text(), self.param(inner, depth + 1))).collect())
            }
            _ => {
                let n = self.below(3);
                Param::List((0..n).map(|_| self.param(inner, depth + 1)).collect())
            }
        }
    }

    fn atom(&mut self, jaxpr: &Jaxpr) -> Atom {
        match jaxpr.vars.len() {
            n if n > 0 && self.below(4) > 0 => {
                Atom::Var(VarId(u32::try_from(self.below(n)).unwrap()))
            }
            _ => Atom::Literal(self.tensor()),
        }
    }
}

fn define(jaxpr: &mut Jaxpr, ty: Type) -> VarId {
    jaxpr.vars.push(ty);
    VarId(u32::try_from(jaxpr.vars.len() - 1).unwrap())
}

/// Returns a random program with its source lines. Equal seeds give equal programs.
pub(super) fn document(seed: u64) -> Document {
    let mut random = Random::new(seed);
    let mut document = Document::default();
    let arrays: Vec<Tensor> = (0..3).map(|_| random.tensor()).collect();
    let stacks = &mut document.stacks;
    let frames: Vec<_> = (0..3)
        .map(|line| {
            let span = Span { line, column: 1, end_line: line, end_column: 5 };
            let (file, function): (Arc<str>, _) = (random.text(), random.text());
            let kind = [FrameKind::User, FrameKind::Library, FrameKind::Jax][random.below(3)];
            stacks.intern(Frame { path: file.clone(), file, function, span, kind })
        })
        .collect();
    let ids: Vec<StackId> = (0..4).map(|_| stacks.reserve()).collect();
    for id in &ids {
        let depth = random.below(4);
        let frames: Vec<_> = (0..depth).map(|_| frames[random.below(frames.len())]).collect();
        stacks.resolve(*id, &frames);
    }
    document.entry = (random.below(2) == 0).then(|| ids[0]);
    let count = 1 + random.below(5);
    for inner in 0..count {
        let mut jaxpr = Jaxpr::default();
        for _ in 0..random.below(3) {
            let tensor = match random.below(2) {
                0 => arrays[random.below(arrays.len())].clone(),
                _ => random.tensor(),
            };
            let name = (random.below(2) == 0).then(|| random.text());
            let var = define(&mut jaxpr, tensor.ty());
            jaxpr.consts.push((var, Constant { tensor, name }));
        }
        for _ in 0..random.below(3) {
            let var = define(&mut jaxpr, random.ty());
            jaxpr.inputs.push(var);
        }
        for _ in 0..random.below(5) {
            let operands = random.below(3);
            let inputs = (0..operands).map(|_| random.atom(&jaxpr)).collect();
            let params = random.below(4);
            let params =
                Params((0..params).map(|_| (random.text(), random.param(inner, 0))).collect());
            let results = random.below(3);
            let outputs = (0..results).map(|_| define(&mut jaxpr, random.ty())).collect();
            jaxpr.eqns.push(Eqn {
                primitive: random.text(),
                inputs,
                outputs,
                params,
                stack: (random.below(2) == 0).then(|| ids[random.below(ids.len())]),
                scope: if random.below(2) == 0 { "".into() } else { random.text() },
                external: (random.below(9) == 0).then_some(0),
                functions: Arc::new([]),
            });
        }
        for _ in 0..random.below(3) {
            let atom = random.atom(&jaxpr);
            jaxpr.outputs.push(atom);
        }
        document.program.jaxprs.push(jaxpr);
    }
    document.program.main = Some(JaxprId(u32::try_from(count - 1).unwrap()));
    document
}

/// Asserts that two programs are equal up to the numbering of variables, jaxprs, arrays and stacks.
pub(super) fn assert_same(a: &Document, b: &Document) {
    let mut same = Same { a, b, jaxprs: FxHashMap::default(), arrays: FxHashMap::default() };
    same.jaxpr(a.program.main.unwrap(), b.program.main.unwrap());
    same.stack(a.entry, b.entry);
}

struct Same<'a> {
    a: &'a Document,
    b: &'a Document,
    jaxprs: FxHashMap<JaxprId, JaxprId>,
    arrays: FxHashMap<(usize, usize), usize>,
}

impl Same<'_> {
    fn jaxpr(&mut self, a: JaxprId, b: JaxprId) {
        if let Some(known) = self.jaxprs.insert(a, b) {
            assert_eq!(known, b, "one jaxpr became two");
            return;
        }
        let (x, y) = (self.a.program.jaxpr(a), self.b.program.jaxpr(b));
        let mut vars = FxHashMap::default();
        let mut define = |a: VarId, b: VarId| {
            assert_eq!(x.ty(a), y.ty(b));
            vars.insert(a, b);
        };
        assert_eq!((x.consts.len(), x.inputs.len()), (y.consts.len(), y.inputs.len()));
        for ((a, c), (b, d)) in x.consts.iter().zip(&y.consts) {
            define(*a, *b);
            assert_eq!((&c.tensor, &c.name), (&d.tensor, &d.name));
            let (own, other) = (c.tensor.address(), d.tensor.address());
            if !c.tensor.is_empty() {
                let key = (own, c.tensor.dtype() as usize);
                assert_eq!(*self.arrays.entry(key).or_insert(other), other, "one array became two");
            }
        }
        x.inputs.iter().zip(&y.inputs).for_each(|(a, b)| define(*a, *b));
        assert_eq!(x.eqns.len(), y.eqns.len());
        for (e, f) in x.eqns.iter().zip(&y.eqns) {
            assert_eq!((&e.primitive, &e.scope, e.external), (&f.primitive, &f.scope, f.external));
            assert_eq!((e.inputs.len(), e.outputs.len()), (f.inputs.len(), f.outputs.len()));
            e.outputs.iter().zip(&f.outputs).for_each(|(a, b)| define(*a, *b));
        }
        let atoms = |a: &Atom, b: &Atom| match (a, b) {
            (Atom::Var(a), Atom::Var(b)) => assert_eq!(vars[a], *b),
            (Atom::Literal(a), Atom::Literal(b)) => assert_eq!(a, b),
            _ => unreachable!("{a:?} became {b:?}"),
        };
        for (e, f) in x.eqns.iter().zip(&y.eqns) {
            e.inputs.iter().zip(&f.inputs).for_each(|(a, b)| atoms(a, b));
            self.fields(&e.params.0, &f.params.0);
            self.stack(e.stack, f.stack);
        }
        assert_eq!(x.outputs.len(), y.outputs.len());
        x.outputs.iter().zip(&y.outputs).for_each(|(a, b)| atoms(a, b));
    }

    fn stack(&self, a: Option<StackId>, b: Option<StackId>) {
        assert_eq!(a.is_some(), b.is_some());
        let frames = |document: &Document, stack: Option<StackId>| -> Vec<Frame> {
            stack.into_iter().flat_map(|stack| document.stacks.frames(stack)).cloned().collect()
        };
        assert_eq!(frames(self.a, a), frames(self.b, b));
    }

    fn fields(&mut self, a: &[(Arc<str>, Param)], b: &[(Arc<str>, Param)]) {
        assert_eq!(a.len(), b.len());
        for ((name, a), (other, b)) in a.iter().zip(b) {
            assert_eq!(name, other);
            self.param(a, b);
        }
    }

    fn param(&mut self, a: &Param, b: &Param) {
        match (a, b) {
            (Param::Jaxpr(a), Param::Jaxpr(b)) => self.jaxpr(*a, *b),
            (Param::Fields(a), Param::Fields(b)) => self.fields(a, b),
            (Param::List(a), Param::List(b)) => {
                assert_eq!(a.len(), b.len());
                a.iter().zip(b).for_each(|(a, b)| self.param(a, b));
            }
            (Param::Float(a), Param::Float(b)) => assert_eq!(a.to_bits(), b.to_bits()),
            (Param::Tensor(a), Param::Tensor(b)) => assert_eq!(a, b),
            (a, b) => assert_eq!(format!("{a:?}"), format!("{b:?}")),
        }
    }
}
