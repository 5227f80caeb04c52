//! Ctrl-C while a query runs.
//!
//! Python only notes a signal, and raises `KeyboardInterrupt` when its main thread runs Python code again. While the main
//! thread runs a query, a handler of ours stands before Python's: it also stops the query.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::ThreadId;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The thread that Python handles signals in.
static MAIN: PyOnceLock<ThreadId> = PyOnceLock::new();

/// Remembers the main thread: the module is loaded by it, or it is not known.
pub(crate) fn remember_main_thread(py: Python<'_>) -> PyResult<()> {
    let threading = py.import("threading")?;
    let current = threading.call_method0("current_thread")?;
    if current.is(threading.call_method0("main_thread")?) {
        let _ = MAIN.set(py, std::thread::current().id());
    }
    Ok(())
}

/// Runs work without the interpreter's lock. If Ctrl-C is pressed meanwhile, `cancel` is set.
///
/// # Errors
/// `KeyboardInterrupt`, or what else a handler of a signal raises.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    cancel: &Arc<AtomicBool>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let is_main = MAIN.get(py) == Some(&std::thread::current().id());
    let done = py.detach(|| {
        let _handler = is_main.then(|| signal::Handler::install(cancel));
        work()
    });
    py.check_signals()?;
    Ok(done)
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "handlers of signals")]
mod signal {
    //! Invariant: `CANCEL` is null, or points to the flag of the one `Handler` that exists. Only the main thread installs a
    //! handler, and removes it before it installs another one. A flag is freed when the next handler is removed, at the
    //! earliest: a handler that has read its address, on any thread, has ended long before that.

    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    /// The flag to set.
    static CANCEL: AtomicPtr<AtomicBool> = AtomicPtr::new(ptr::null_mut());
    /// The flag of the handler before.
    static LAST: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
    /// The address of Python's handler.
    static PYTHON: AtomicUsize = AtomicUsize::new(0);

    /// Our handler, as long as it is installed.
    pub(super) struct Handler<'c> {
        before: libc::sigaction,
        cancel: &'c Arc<AtomicBool>,
    }

    impl<'c> Handler<'c> {
        /// Puts our handler before Python's. `None` if Python has none: then Ctrl-C is ignored, or ends the process.
        pub(super) fn install(cancel: &'c Arc<AtomicBool>) -> Option<Self> {
            // SAFETY: `sigaction` with a null pointer as action only writes the current one to `before`.
            let before = unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(libc::SIGINT, ptr::null(), &mut before) != 0 {
                    return None;
                }
                before
            };
            let is_function = before.sa_flags & libc::SA_SIGINFO == 0
                && before.sa_sigaction != libc::SIG_DFL
                && before.sa_sigaction != libc::SIG_IGN;
            if !is_function || !CANCEL.load(Ordering::Relaxed).is_null() {
                return None;
            }
            PYTHON.store(before.sa_sigaction, Ordering::Relaxed);
            CANCEL.store(Arc::as_ptr(cancel).cast_mut(), Ordering::Release);
            let mut ours = before;
            ours.sa_sigaction = interrupted as *const () as usize;
            // SAFETY: `interrupted` has the signature of a handler without SA_SIGINFO, and only does what handlers may do.
            unsafe { libc::sigaction(libc::SIGINT, &ours, ptr::null_mut()) };
            Some(Self { before, cancel })
        }
    }

    impl Drop for Handler<'_> {
        fn drop(&mut self) {
            // SAFETY: `before` is the action that `sigaction` has returned.
            unsafe { libc::sigaction(libc::SIGINT, &self.before, ptr::null_mut()) };
            CANCEL.store(ptr::null_mut(), Ordering::Release);
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(Arc::clone(self.cancel));
        }
    }

    extern "C" fn interrupted(signal: libc::c_int) {
        let cancel = CANCEL.load(Ordering::Acquire);
        if !cancel.is_null() {
            // SAFETY: by the invariant, the flag is alive.
            unsafe { (*cancel).store(true, Ordering::Relaxed) };
        }
        let python = PYTHON.load(Ordering::Relaxed);
        if python != 0 {
            // SAFETY: `PYTHON` is the address of the handler that was installed before, which takes the signal's number.
            let python: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(python) };
            python(signal);
        }
    }
}

#[cfg(not(unix))]
mod signal {
    use std::marker::PhantomData;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Nothing: a query is stopped between its batches.
    pub(super) struct Handler<'c>(PhantomData<&'c ()>);

    impl<'c> Handler<'c> {
        pub(super) fn install(_: &'c Arc<AtomicBool>) -> Option<Self> {
            None
        }
    }
}
