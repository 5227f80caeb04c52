//! Work that others should not notice: on a thread of low priority for the processor and the device.
#![expect(
    unsafe_code,
    reason = "the priorities of a thread are set by system calls without a safe wrapper"
)]

use std::cell::Cell;

/// Niceness of the thread: it gets a tenth of the processor that others want.
const NICE: libc::c_int = 10;
/// Niceness of a thread that gives way.
const GIVES_WAY_NICE: libc::c_int = 5;
/// `IOPRIO_WHO_PROCESS`, and the lowest priority of the class `IOPRIO_CLASS_BE` (`linux/ioprio.h`).
const IO_PRIORITY_OF_THREAD: libc::c_int = 1;
const IO_PRIORITY: libc::c_int = (2 << 13) | 7;

thread_local! {
    static IS_LOW: Cell<bool> = const { Cell::new(false) };
}

/// Does the work on a thread of low priority, and waits for it. Its reads are not continued by the threads that read
/// ahead, whose priority is that of all. Without another thread, or where priorities cannot be set, it works as usual.
pub fn at_low_priority<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let slot = &mut work;
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("low priority".to_owned());
        let thread = thread.spawn_scoped(scope, || {
            lower();
            slot.take().map(|work| work())
        });
        match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => None,
        }
    });
    match (done, work) {
        (Some(done), _) => done,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("the thread has done the work, or left it"),
    }
}

/// Lets other threads go before this one at the processor from now on: it gets a quarter of what others want.
pub fn give_way() {
    set_nice(GIVES_WAY_NICE);
}

/// Returns whether this thread has a low priority.
pub(crate) fn is_low() -> bool {
    IS_LOW.get()
}

fn lower() {
    IS_LOW.set(true);
    set_nice(NICE);
    // SAFETY: the call takes numbers alone, and 0 stands for the calling thread.
    unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IO_PRIORITY_OF_THREAD,
            0 as libc::c_int,
            IO_PRIORITY,
        );
    }
}

/// Makes the thread at least this nice.
fn set_nice(nice: libc::c_int) {
    if self::nice() < nice {
        // SAFETY: the call takes numbers alone, and 0 stands for the calling thread.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        }
    }
}

fn nice() -> libc::c_int {
    // SAFETY: the call takes numbers alone, and 0 stands for the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_without_the_others() {
        let before = nice();
        let there = std::thread::spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(there.join().unwrap(), before.max(GIVES_WAY_NICE));
        assert_eq!(nice(), before);
    }

    #[test]
    fn work_is_done_at_a_low_priority_that_ends_with_it() {
        let here = std::thread::current().id();
        let (there, was_low) = at_low_priority(|| (std::thread::current().id(), is_low()));
        assert!(there != here && was_low && !is_low());
        let panics = std::panic::catch_unwind(|| at_low_priority(|| panic!("on purpose")));
        assert!(panics.is_err());
    }
}
