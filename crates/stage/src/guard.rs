//! Work on one file that cannot end the others: a decoder that panics on damaged data fails its file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    /// Whether a panic of this thread is caught and told as a failure.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics that are caught from being printed; others are printed as ever.
pub(crate) fn install() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            print(panic);
        }
    }));
}

/// Does `work`; a panic becomes an error that says what it said.
pub(crate) fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    let before = GUARDED.replace(true);
    // What `work` leaves behind half done is of its own file, and is dropped with it.
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|panic| message(&*panic))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| String::from("no reason given"));
    format!("its data are damaged, so that a decoder gave up ({text}): make the file again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_as_a_failure() {
        assert_eq!(guarded(|| 7), Ok(7));
        let failed = guarded(|| -> u32 { panic!("page {}", 3) });
        assert!(failed.unwrap_err().contains("gave up (page 3)"));
    }
}
