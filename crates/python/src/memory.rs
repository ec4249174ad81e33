//! The allocator of this module.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

// A conversion is many small allocations: a fifth of its time with the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay`, for which the crate has no name.
const PURGE_DELAY: mi_option_t = 15;

/// How many milliseconds unused memory is kept. What one conversion leaves, the next one takes:
/// asking the system for it anew would cost a sixth of the time that is spent in Rust.
const KEPT: c_long = 10_000;

/// Sets the allocator up.
pub(crate) fn configure() {
    #[expect(unsafe_code, reason = "a function of C; options may be set at any time")]
    // SAFETY: the option exists, and any number is a valid delay.
    unsafe {
        mi_option_set(PURGE_DELAY, KEPT);
    }
}
