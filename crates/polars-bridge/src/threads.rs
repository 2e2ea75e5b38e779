//! Bounds polars' own thread pool, which it would size by the machine.

#![expect(unsafe_code, reason = "polars reads the size of its pool from the environment only")]

use std::num::NonZeroUsize;

/// Gives polars at most this many threads, unless the user has set `POLARS_MAX_THREADS`. Works
/// while this thread is the process's only one, before polars is first used; later it does
/// nothing.
pub fn limit_threads(threads: NonZeroUsize) {
    const VARIABLE: &str = "POLARS_MAX_THREADS";
    if std::env::var_os(VARIABLE).is_none() && is_only_thread() {
        // SAFETY: the environment may be changed while no other thread can read it.
        unsafe { std::env::set_var(VARIABLE, threads.to_string()) };
    }
}

/// One entry in `/proc/self/task` is one thread, proc(5).
#[expect(clippy::disallowed_methods, reason = "/proc is not archive storage")]
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_set_while_other_threads_run() {
        // A test runs on a thread beside the harness's own.
        assert!(!is_only_thread());
        limit_threads(NonZeroUsize::MIN);
        assert_eq!(std::env::var_os("POLARS_MAX_THREADS"), None);
    }
}
