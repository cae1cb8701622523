//! The Linux half: which descriptors exist ([`registry`]), what `SQLite` calls ([`syscalls`]), and a test ([`probe`]).

mod descriptor;
mod probe;
mod registry;
mod syscalls;

pub(super) use probe::{descriptors_conflict, held_by_others_here};
pub(super) use registry::{Guard, lock};
pub(super) use syscalls::install;
