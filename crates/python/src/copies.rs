//! Copies objects that refer to each other. Python defines once per type how its objects are
//! copied.

use std::sync::Arc;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::objects::{ByType, InstanceDict, if_assigned};
use crate::read::{Address, address};

/// The maximum nesting of tuples, which are copied from the inside out.
const DEEPEST: usize = 500;

/// The way to copy objects of a type: they are created empty, and then filled.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Copier {
    /// The Python function that creates an empty object.
    make: Py<PyAny>,
    dictionary: Option<InstanceDict>,
    /// The getter and the setter of each slot.
    slots: Vec<(Py<PyAny>, Py<PyAny>)>,
}

#[pymethods]
impl Copier {
    #[new]
    fn new(
        make: Py<PyAny>,
        has_dict: bool,
        slots: Vec<(Py<PyAny>, Py<PyAny>)>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let dictionary = has_dict.then(|| InstanceDict::new(py)).transpose()?;
        Ok(Self { make, dictionary, slots })
    }
}

/// Copies of objects and of their containers, each made once, so that sharing is preserved.
#[pyclass(module = "jax2onnx._core")]
pub(crate) struct Copies {
    /// The Python function that returns the way to copy objects of a type.
    learn: Py<PyAny>,
    /// The replacement of all objects of its type.
    one: Option<Py<PyAny>>,
    kinds: ByType<CopyKind>,
    made: FxHashMap<Address, Py<PyAny>>,
    /// The originals and their copies. The references keep the addresses valid.
    pairs: Vec<(Py<PyAny>, Py<PyAny>)>,
    /// The number of pairs that have been filled.
    filled: usize,
}

/// The way to copy objects of a type.
#[derive(Clone)]
enum CopyKind {
    Not,
    /// One object replaces all of them.
    One,
    Dict,
    List,
    Tuple,
    By(Arc<Py<Copier>>),
}

#[pymethods]
impl Copies {
    #[new]
    #[pyo3(signature = (learn, one=None))]
    fn new(learn: Py<PyAny>, one: Option<Py<PyAny>>) -> Self {
        Self {
            learn,
            one,
            kinds: ByType::default(),
            made: FxHashMap::default(),
            pairs: Vec::new(),
            filled: 0,
        }
    }

    /// Returns the copy of an object, or the object itself if it is not copied.
    fn of<'py>(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let copy = self.copy(object, 0)?;
        while let Some((original, copy)) = self.pairs.get(self.filled) {
            self.filled += 1;
            let py = object.py();
            let (original, copy) = (original.clone_ref(py), copy.clone_ref(py));
            self.fill(original.bind(py), copy.bind(py))?;
        }
        Ok(copy)
    }

    /// Returns `true` if one of the objects was copied.
    fn has_copied(&self, objects: &Bound<'_, PyList>) -> bool {
        objects.iter().any(|object| self.made.contains_key(&address(&object)))
    }

    /// Returns the objects that are not copies.
    fn others<'py>(&self, objects: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let made: FxHashSet<Address> =
            self.pairs.iter().map(|(_, copy)| copy.as_ptr() as Address).collect();
        let others = objects.iter().filter(|object| !made.contains(&address(object)));
        PyList::new(objects.py(), others.collect::<Vec<_>>())
    }
}

impl Copies {
    /// Returns the copy of an object, which may be filled later.
    fn copy<'py>(
        &mut self,
        object: &Bound<'py, PyAny>,
        depth: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        let identity = address(object);
        if let Some(made) = self.made.get(&identity) {
            return Ok(made.bind(py).clone());
        }
        let copy = match self.kind(object)? {
            CopyKind::Not => return Ok(object.clone()),
            CopyKind::One => {
                return Ok(self.one.as_ref().map_or(object, |one| one.bind(py)).clone());
            }
            CopyKind::Tuple => return self.tuple(object.cast()?, depth),
            CopyKind::Dict => PyDict::new(py).into_any(),
            CopyKind::List => PyList::empty(py).into_any(),
            CopyKind::By(copier) => copier.get().make.bind(py).call1((object.get_type(),))?,
        };
        self.made.insert(identity, copy.clone().unbind());
        self.pairs.push((object.clone().unbind(), copy.clone().unbind()));
        Ok(copy)
    }

    fn tuple<'py>(
        &mut self,
        tuple: &Bound<'py, PyTuple>,
        depth: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        if depth == DEEPEST {
            return Err(PyRecursionError::new_err("tuples are nested too deeply to be copied"));
        }
        let copies: Vec<_> =
            tuple.iter().map(|part| self.copy(&part, depth + 1)).collect::<PyResult<_>>()?;
        let is_same = tuple.iter().zip(&copies).all(|(part, copy)| part.is(copy));
        let tuple = if is_same { tuple.clone() } else { PyTuple::new(tuple.py(), copies)? };
        Ok(tuple.into_any())
    }

    fn fill<'py>(
        &mut self,
        original: &Bound<'py, PyAny>,
        copy: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = original.py();
        let copier = match self.kind(original)? {
            CopyKind::Not | CopyKind::One | CopyKind::Tuple => return Ok(()),
            CopyKind::Dict => return self.fill_dict(original.cast()?, copy.cast()?),
            CopyKind::List => {
                let copy = copy.cast::<PyList>()?;
                let mut elements = original.cast::<PyList>()?.iter();
                return elements.try_for_each(|e| copy.append(self.copy(&e, 0)?));
            }
            CopyKind::By(copier) => copier,
        };
        let copier = copier.get();
        if let Some(dictionary) = &copier.dictionary
            && let Some(stored) = dictionary.of(original)?
            && let Some(empty) = dictionary.of(copy)?
        {
            self.fill_dict(&stored, &empty)?;
        }
        for (get, set) in &copier.slots {
            if let Some(value) = if_assigned(get.bind(py).call1((original,)))? {
                set.bind(py).call1((copy, self.copy(&value, 0)?))?;
            }
        }
        Ok(())
    }

    /// Fills a dictionary. Most values are not copied, so it updates the whole copy first and then
    /// replaces the others.
    fn fill_dict<'py>(
        &mut self,
        stored: &Bound<'py, PyDict>,
        copy: &Bound<'py, PyDict>,
    ) -> PyResult<()> {
        copy.update(stored.as_mapping())?;
        for (key, value) in stored.iter().collect::<Vec<_>>() {
            let own = self.copy(&value, 0)?;
            if !own.is(&value) {
                copy.set_item(key, own)?;
            }
        }
        Ok(())
    }

    fn kind(&mut self, object: &Bound<'_, PyAny>) -> PyResult<CopyKind> {
        self.kinds.of(object, || {
            if object.is_exact_instance_of::<PyDict>() {
                return Ok(CopyKind::Dict);
            }
            if object.is_exact_instance_of::<PyList>() {
                return Ok(CopyKind::List);
            }
            if object.is_exact_instance_of::<PyTuple>() {
                return Ok(CopyKind::Tuple);
            }
            let one = self.one.as_ref().map(|one| one.bind(object.py()));
            if one.is_some_and(|one| one.get_type_ptr() == object.get_type_ptr()) {
                return Ok(CopyKind::One);
            }
            let copier = self.learn.bind(object.py()).call1((object.get_type(),))?;
            let copier: Option<Py<Copier>> = copier.extract()?;
            Ok(copier.map_or(CopyKind::Not, |copier| CopyKind::By(Arc::new(copier))))
        })
    }
}
