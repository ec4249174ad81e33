//! Walks the objects that a callable holds. Python describes once per type what its objects are and
//! how to read them. The thousands of objects of a model are read here.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyNone, PyString,
    PyTuple, PyType,
};
use rustc_hash::FxHashSet;

use crate::objects::{ByType, InstanceDict, if_assigned};
use crate::read::{Address, address};

/// The maximum number of objects. A walk that finds more has left the model.
const LIMIT: usize = 500_000;

/// The maximum length of a container of plain values. Longer ones are data, such as a vocabulary.
const LONG: usize = 1_000;

/// The walk's treatment of objects of a type that can hold others, or are arrays.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Reader {
    contents: Contents,
    is_array: bool,
    is_module: bool,
    is_object: bool,
    is_step: bool,
    own_name: Option<Py<PyAny>>,
    array_prefix: Option<Py<PyAny>>,
}

/// The contents of objects of a type.
#[derive(Debug)]
enum Contents {
    Nothing,
    /// Entries, as in dictionaries.
    Entries,
    /// Elements, as in lists and tuples.
    Elements,
    Attributes(Py<Attributes>),
    /// The result of a Python function: pairs of a name and an object.
    Listed(Py<PyAny>),
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (
        contents, *, is_array=false, is_module=false, is_object=false, is_step=true, own_name=None,
        array_prefix=None
    ))]
    fn new(
        contents: &Bound<'_, PyAny>,
        is_array: bool,
        is_module: bool,
        is_object: bool,
        is_step: bool,
        own_name: Option<Py<PyAny>>,
        array_prefix: Option<Py<PyAny>>,
    ) -> Self {
        let py = contents.py();
        let contents = if contents.is_none() {
            Contents::Nothing
        } else if contents.is(PyDict::type_object(py)) {
            Contents::Entries
        } else if contents.is(PyList::type_object(py)) {
            Contents::Elements
        } else if let Ok(attributes) = contents.cast::<Attributes>() {
            Contents::Attributes(attributes.clone().unbind())
        } else {
            Contents::Listed(contents.clone().unbind())
        };
        Self { contents, is_array, is_module, is_object, is_step, own_name, array_prefix }
    }
}

/// The attributes that objects of a type store, in their dictionary or in slots.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Attributes {
    dictionary: Option<InstanceDict>,
    /// The names of slots, and the getters of their values.
    slots: Vec<(Py<PyString>, Py<PyAny>)>,
    unnamed: Py<PyFrozenSet>,
    ignored: Py<PyFrozenSet>,
    only_unnamed: bool,
}

#[pymethods]
impl Attributes {
    #[new]
    #[pyo3(signature = (has_dict, slots, *, unnamed, ignored, only_unnamed=false))]
    fn new(
        has_dict: bool,
        slots: Vec<(Py<PyString>, Py<PyAny>)>,
        unnamed: Py<PyFrozenSet>,
        ignored: Py<PyFrozenSet>,
        only_unnamed: bool,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let dictionary = has_dict.then(|| InstanceDict::new(py)).transpose()?;
        Ok(Self { dictionary, slots, unnamed, ignored, only_unnamed })
    }
}

/// Objects, each with its path, and a flag that is set if the path is a complete name.
type Found = Vec<(Py<PyAny>, String, bool)>;

/// A walk over objects that visits each at most once.
#[pyclass(module = "jax2onnx._core")]
pub(crate) struct Walker {
    /// The Python function that returns the reader for objects of a type.
    learn: Py<PyAny>,
    kinds: ByType<ObjectRole>,
    seen: FxHashSet<Address>,
    objects: Vec<Py<PyAny>>,
    loose: FxHashSet<Address>,
    fingerprint: Vec<Py<PyAny>>,
    classes: Vec<Py<PyAny>>,
}

/// The role of objects of a type in the walk.
#[derive(Clone)]
enum ObjectRole {
    /// A number, a string or a similar value that a traced function may depend on.
    Plain,
    Class,
    Irrelevant,
    Read(Arc<Py<Reader>>),
}

/// An object that is going to be read.
struct Holder<'py> {
    object: Bound<'py, PyAny>,
    reader: Arc<Py<Reader>>,
    path: Path,
    /// The prefix of the names of arrays among its attributes, if not the path.
    array_prefix: Option<String>,
    /// `true` if it is a container that belongs to no object.
    is_loose: bool,
}

#[derive(Clone, Default)]
struct Path {
    text: Arc<str>,
    /// `true` if the text is a complete name in place of a path.
    is_name: bool,
}

impl Path {
    fn join(&self, name: &str) -> Self {
        let text = match (&*self.text, name) {
            (_, "") => return self.clone(),
            ("", _) => name.into(),
            (path, _) => format!("{path}.{name}").into(),
        };
        Self { text, is_name: false }
    }
}

/// The name of an object within its holder.
enum Name<'a, 'py> {
    None,
    Text(&'a Bound<'py, PyString>),
    Key(&'a Bound<'py, PyAny>),
    Index(usize),
}

impl<'a, 'py> Name<'a, 'py> {
    fn of(key: &'a Bound<'py, PyAny>) -> Self {
        key.cast_exact().map_or(Self::Key(key), Self::Text)
    }

    fn text(&self) -> PyResult<Cow<'_, str>> {
        Ok(match self {
            Self::None => "".into(),
            Self::Text(text) => text.to_string_lossy(),
            Self::Key(key) => key.str()?.to_string_lossy().into_owned().into(),
            Self::Index(index) => index.to_string().into(),
        })
    }
}

#[pymethods]
impl Walker {
    #[new]
    fn new(learn: Py<PyAny>) -> Self {
        Self {
            learn,
            kinds: ByType::default(),
            seen: FxHashSet::default(),
            objects: Vec::new(),
            loose: FxHashSet::default(),
            fingerprint: Vec::new(),
            classes: Vec::new(),
        }
    }

    /// Walks an object breadth first, so that objects that are reachable in several ways get a
    /// short path. Returns the arrays and the modules.
    fn walk(&mut self, root: &Bound<'_, PyAny>) -> PyResult<(Found, Found)> {
        let mut branch = Branch::default();
        let above = Above { path: &Path::default(), array_prefix: None, is_loose: true };
        self.visit(&mut branch, &above, &Name::None, root.clone())?;
        while self.seen.len() < LIMIT
            && let Some(holder) = branch.holders.pop_front()
        {
            self.read(&mut branch, &holder)?;
        }
        Ok((branch.arrays, branch.modules))
    }

    #[getter]
    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.objects)
    }

    #[getter]
    fn loose(&self) -> &FxHashSet<Address> {
        &self.loose
    }

    #[getter]
    fn fingerprint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.fingerprint)
    }

    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.classes)
    }
}

/// The objects found below one root, and those to read next.
#[derive(Default)]
struct Branch<'py> {
    arrays: Found,
    modules: Found,
    holders: VecDeque<Holder<'py>>,
}

/// The properties that an object inherits from its holder.
struct Above<'a> {
    path: &'a Path,
    array_prefix: Option<&'a str>,
    is_loose: bool,
}

impl Walker {
    fn visit<'py>(
        &mut self,
        branch: &mut Branch<'py>,
        above: &Above<'_>,
        name: &Name<'_, 'py>,
        object: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = object.py();
        let reader = match self.kind(&object)? {
            ObjectRole::Plain => {
                self.fingerprint.push(object.unbind());
                return Ok(());
            }
            ObjectRole::Class => {
                self.classes.push(object.unbind());
                return Ok(());
            }
            ObjectRole::Irrelevant => return Ok(()),
            ObjectRole::Read(reader) => reader,
        };
        let identity = address(&object);
        if !self.seen.insert(identity) {
            return Ok(());
        }
        self.objects.push(object.clone().unbind());
        let name = name.text()?;
        let mut path = above.path.join(&name);
        let about = reader.get();
        if let Some(own) = name_by(about.own_name.as_ref(), &object)? {
            path = Path { text: own.into(), is_name: true };
        }
        if about.is_array {
            self.fingerprint.push(identity.into_pyobject(py)?.into_any().unbind());
            branch.arrays.push(match above.array_prefix {
                Some(prefix) => (object.unbind(), format!("{prefix}/{name}"), true),
                None => (object.unbind(), path.text.as_ref().to_owned(), path.is_name),
            });
            return Ok(());
        }
        self.fingerprint.push(object.get_type().into_any().unbind());
        if about.is_module {
            let found = (object.clone().unbind(), path.text.as_ref().to_owned(), path.is_name);
            branch.modules.push(found);
        }
        let is_loose = above.is_loose && !about.is_object;
        if is_loose {
            self.loose.insert(identity);
        }
        let array_prefix = name_by(about.array_prefix.as_ref(), &object)?;
        let path = if about.is_step { path } else { above.path.clone() };
        branch.holders.push_back(Holder { object, reader, path, array_prefix, is_loose });
        Ok(())
    }

    fn read<'py>(&mut self, branch: &mut Branch<'py>, holder: &Holder<'py>) -> PyResult<()> {
        let object = &holder.object;
        let py = object.py();
        let above = Above {
            path: &holder.path,
            array_prefix: holder.array_prefix.as_deref(),
            is_loose: holder.is_loose,
        };
        match &holder.reader.get().contents {
            Contents::Nothing => {}
            Contents::Entries => {
                let entries = object.cast::<PyDict>()?;
                if is_data(entries.len(), || entries.iter().next().map(|(_, value)| value)) {
                    return Ok(());
                }
                // Methods of keys may run code that changes the dictionary.
                let entries: Vec<_> = entries.iter().collect();
                for (key, value) in entries {
                    self.visit(branch, &above, &Name::of(&key), value)?;
                }
            }
            Contents::Elements => {
                let elements = match object.cast::<PyList>() {
                    Ok(list) if is_data(list.len(), || list.iter().next()) => return Ok(()),
                    Ok(list) => list.to_tuple(),
                    Err(_) => object.cast::<PyTuple>()?.clone(),
                };
                if is_data(elements.len(), || elements.iter().next()) {
                    return Ok(());
                }
                for (i, element) in elements.iter().enumerate() {
                    self.visit(branch, &above, &Name::Index(i), element)?;
                }
            }
            Contents::Attributes(attributes) => {
                let attributes = attributes.get();
                let ignored = attributes.ignored.bind(py);
                let unnamed = attributes.unnamed.bind(py);
                let mut visit = |name: &Bound<'py, PyAny>, value| match unnamed.contains(name)? {
                    true => self.visit(branch, &above, &Name::None, value),
                    false if attributes.only_unnamed => Ok(()),
                    false => self.visit(branch, &above, &Name::of(name), value),
                };
                if let Some(dictionary) = &attributes.dictionary
                    && let Some(stored) = dictionary.of(object)?
                {
                    for (name, value) in stored.iter().collect::<Vec<_>>() {
                        if !ignored.contains(&name)? {
                            visit(&name, value)?;
                        }
                    }
                }
                for (name, get) in &attributes.slots {
                    if let Some(value) = if_assigned(get.bind(py).call1((object,)))? {
                        visit(name.bind(py).as_any(), value)?;
                    }
                }
            }
            Contents::Listed(list) => {
                for pair in list.bind(py).call1((object,))?.try_iter()? {
                    let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
                    self.visit(branch, &above, &Name::of(&name), value)?;
                }
            }
        }
        Ok(())
    }

    fn kind(&mut self, object: &Bound<'_, PyAny>) -> PyResult<ObjectRole> {
        self.kinds.of(object, || {
            if is_plain(object) {
                return Ok(ObjectRole::Plain);
            }
            if object.is_instance_of::<PyType>() {
                return Ok(ObjectRole::Class);
            }
            let reader = self.learn.bind(object.py()).call1((object.get_type(),))?;
            let reader: Option<Py<Reader>> = reader.extract()?;
            Ok(reader.map_or(ObjectRole::Irrelevant, |reader| ObjectRole::Read(Arc::new(reader))))
        })
    }
}

fn name_by(function: Option<&Py<PyAny>>, object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Some(function) = function else { return Ok(None) };
    let name: Option<String> = function.bind(object.py()).call1((object,))?.extract()?;
    Ok(name.filter(|name| !name.is_empty()))
}

/// Returns `true` if a container is data rather than part of a model, judging by its length and its
/// first element.
fn is_data<'py>(length: usize, first: impl FnOnce() -> Option<Bound<'py, PyAny>>) -> bool {
    length > LONG && first().is_some_and(|first| is_plain(&first))
}

fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyNone>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyComplex>()
}
