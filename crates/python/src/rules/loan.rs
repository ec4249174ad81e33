//! Lends a rule's context to Python, whose objects have no lifetimes.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use lower::Context;
use pyo3::prelude::*;

/// A context that Python may use only while its rule runs.
#[derive(Debug)]
pub(super) struct Loan(Mutex<Option<Lent>>);

/// A pointer to the lent context. The lifetime is a placeholder.
#[derive(Debug)]
struct Lent(NonNull<Context<'static>>);

#[expect(unsafe_code, reason = "the pointer is as valid as the `&mut Context` it was made from")]
// SAFETY: a `Context` may be used by any one thread at a time (`is_send` below), and the mutex of
// `Loan` guarantees that it is only one.
unsafe impl Send for Lent {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Context<'_>>();
};

/// The reason that a context cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its rule has returned.
    Over,
    /// It is in use by a rule inside a jaxpr that it inlines, or by another thread.
    Busy,
}

impl Loan {
    /// Runs `borrow` with a loan of `context`, which ends when it returns.
    pub(super) fn lend<T>(
        py: Python<'_>,
        context: &mut Context<'_>,
        borrow: impl FnOnce(&Arc<Loan>) -> T,
    ) -> T {
        let lent = Lent(NonNull::from(context).cast());
        let loan = Arc::new(Loan(Mutex::new(Some(lent))));
        let _end = End { py, loan: &loan };
        borrow(&loan)
    }

    /// Runs `job` with the context.
    pub(super) fn with<T>(&self, job: impl FnOnce(&mut Context<'_>) -> T) -> Result<T, Refused> {
        let mut lent = match self.0.try_lock() {
            Ok(lent) => lent,
            Err(TryLockError::Poisoned(lent)) => lent.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Refused::Busy),
        };
        let Some(Lent(context)) = lent.as_mut() else { return Err(Refused::Over) };
        #[expect(unsafe_code, reason = "the loan has not ended")]
        // SAFETY: `lend` borrows the context mutably until `End` removes the pointer, under the
        // same mutex that is held here, so this is the only reference. The job takes a context of
        // any lifetime, so it cannot keep a reference to it.
        Ok(job(unsafe { context.as_mut() }))
    }
}

/// A guard that ends a loan, however its user returns.
struct End<'a, 'py> {
    py: Python<'py>,
    loan: &'a Loan,
}

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        // Another thread that still uses the context may need the interpreter to finish.
        self.py.detach(|| {
            let mut lent = self.loan.0.lock().unwrap_or_else(PoisonError::into_inner);
            *lent = None;
        });
    }
}
