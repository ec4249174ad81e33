//! Measures memory and time.

#![expect(unsafe_code, reason = "a counting allocator needs it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    // Tests run in parallel, so each thread counts its own memory.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all calls are forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get() + layout.size().cast_signed();
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed());
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work` and checks that it takes at most `bytes` of memory and finishes soon.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    PEAK.set(before);
    let start = Instant::now();
    let result = work();
    let taken = (PEAK.get() - before).cast_unsigned();
    assert!(taken <= bytes, "took {taken} bytes of memory, but only {bytes} are allowed");
    // The limit is generous, because machines can be slow and busy. It catches only work that never
    // ends.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    result
}
