//! The allocator of this module.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t, mi_option_use_numa_nodes};
use mimalloc::MiMalloc;

// A conversion makes many small allocations, which would take a fifth of its time with the system's
// allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The option `mi_option_purge_delay` in mimalloc's header: the time before freed memory is
/// returned to the system, in milliseconds. The crate binds only some of the options, among them
/// the one that follows this one.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// Long enough for the next conversion to reuse the memory of the last one. Requesting it from the
/// system again would take a sixth of the time spent in Rust.
const TEN_SECONDS: c_long = 10_000;

/// Configures the allocator.
pub(crate) fn configure() {
    #[expect(unsafe_code, reason = "a C function; options may be set at any time")]
    // SAFETY: the option exists, and any number is a valid delay.
    unsafe {
        mi_option_set(PURGE_DELAY, TEN_SECONDS);
    }
}
