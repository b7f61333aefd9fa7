//! The program: reads the arguments and hands over to the command.

use std::process::ExitCode;

use chartwright::cli::Program;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chartwright::cli::main(&Program {
        when_large: use_huge_pages,
        end,
    })
}

/// Ends the process at once. What the C library would call first includes the allocator, which gives back the heap piece by
/// piece; the kernel takes it in one.
#[cfg(unix)]
fn end(code: u8) -> ! {
    // SAFETY: no other thread's work is wanted any more, and nothing is left in a buffer of the C library.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(not(unix))]
fn end(code: u8) -> ! {
    std::process::exit(code.into())
}

/// Has the kernel give the heap memory by 2 MiB: touching that much takes as long as forty pages of 4 KiB do, one by one.
/// What fills only parts of them takes more memory then, so that this is for processes that end soon.
#[cfg(target_os = "linux")]
fn use_huge_pages() {
    use rustix::mm::{Advice, madvise};

    /// The size of the allocator's arenas, and what they are aligned to.
    const ARENA: usize = 1 << 30;
    const ALIGNED: usize = 4 << 20;

    let inside = Box::new(0_u8);
    let inside = std::ptr::from_ref(&*inside).addr() & !(ALIGNED - 1);
    // The arena is around it, and nothing else is: what isn't mapped is passed over, and said to be an error.
    let from = std::ptr::without_provenance_mut(inside.saturating_sub(ARENA));
    // SAFETY: this is advice on how to back memory; none of what is in it changes.
    let _ = unsafe { madvise(from, 2 * ARENA, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn use_huge_pages() {}
