//! How much memory and time something takes.

#![expect(unsafe_code, reason = "an allocator that counts cannot be written otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    // Tests run side by side; each counts for itself.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get() + layout.size().cast_signed();
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work` and checks that it takes at most `bytes` of memory, and no time to speak of.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    PEAK.set(before);
    let start = Instant::now();
    let result = work();
    let taken = (PEAK.get() - before).cast_unsigned();
    assert!(taken <= bytes, "{taken} bytes of memory, {bytes} are allowed");
    // Machines are slow and busy; only what never ends is meant.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    result
}
