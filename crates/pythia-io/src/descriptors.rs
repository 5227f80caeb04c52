//! The limit on the process's descriptors (files, sockets).
#![expect(unsafe_code, reason = "the limits are read and set by libc")]

/// The limit assumed where the system does not provide it.
const ASSUMED: usize = 1024;

/// Raises the soft limit of open files to the hard one, if possible. Programs call this at their start; libraries
/// must not.
pub fn raise_descriptors_max() {
    let Some(mut limit) = limit() else { return };
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the pointer is to a whole `rlimit` on the stack.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// Returns how many descriptors the process may have open at a time.
pub fn descriptors_max() -> usize {
    limit().map_or(ASSUMED, |limit| {
        usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
    })
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a whole `rlimit` on the stack, which the call fills.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (done == 0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = descriptors_max();
        raise_descriptors_max();
        assert!(descriptors_max() >= before && before > 0);
    }
}
