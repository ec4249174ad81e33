//! Interns strings for the lifetime of the process: names of operators, domains and attributes.

use std::sync::{LazyLock, Mutex, PoisonError};

use rustc_hash::FxHashSet;

static NAMES: LazyLock<Mutex<FxHashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// Returns the shared copy of `name`, which is never freed. The number of names is bounded by the
/// operators that models use, not by the number of models.
pub fn intern(name: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static str = Box::leak(name.into());
    names.insert(leaked);
    leaked
}
