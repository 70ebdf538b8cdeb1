//! Counts allocations: writing canonical JSON may make at most three beyond its output.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "it/samples.rs"]
mod samples;

/// The system's allocator, with a count per thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // The thread may be ending, when its counter is already gone.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator unchanged.
#[expect(unsafe_code, reason = "an allocator can not be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of<T>(act: impl FnOnce() -> T) -> usize {
    let before = ALLOCATIONS.get();
    let result = act();
    let made = ALLOCATIONS.get() - before;
    drop(result);
    made
}

#[test]
fn canonical_json_makes_at_most_three_allocations_beyond_its_output() {
    let problem = samples::full_failure();
    let made = allocations_of(|| problem.to_canonical_json());
    assert_eq!(made, 2, "one for the output, one for the members being sorted");
}

#[test]
fn canonical_json_of_a_large_batch_allocates_no_more() {
    use forgerun_problem::{ItemOutcome, ItemStatus, Job, JobStatus};
    let items =
        (0..1_000).map(|index| ItemOutcome::at_index(index, ItemStatus::Failed).with_detail("too large"));
    let job = Job::builder().status(JobStatus::Failed).results(items);
    let problem = samples::full_failure().into_builder().job(job).build().unwrap();
    assert_eq!(allocations_of(|| problem.to_canonical_json()), 2);
}
