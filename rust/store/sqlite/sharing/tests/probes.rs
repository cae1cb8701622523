//! What the file system answers, and who else has the file open.

use std::path::Path;
use std::thread;

use super::super::{descriptors_conflict, held_by_others_here, reserved_name};
use super::{Other, RESERVED, Scratch, connect, disconnect, run};

#[test]
fn descriptors_of_a_local_file_conflict() {
    let scratch = Scratch::new();
    let ours = connect(&scratch.database(), "wal");
    assert!(descriptors_conflict(&scratch.database()).expect("probe"));
    run(&ours, "begin immediate");
    assert!(descriptors_conflict(&scratch.database()).expect("probe"));
    run(&ours, "commit");
}

#[test]
fn the_probe_drops_no_foreign_lock() {
    let scratch = Scratch::new();
    disconnect(connect(&scratch.database(), "delete"));
    let other = Other::open(&scratch.database());
    assert!(other.lock(RESERVED));
    assert!(descriptors_conflict(&scratch.database()).expect("probe"));
    assert!(other.still_holds(RESERVED));
}

#[test]
fn probes_do_not_disturb_each_other() {
    let scratch = Scratch::new();
    disconnect(connect(&scratch.database(), "delete"));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert!(descriptors_conflict(&scratch.database()).expect("probe"));
                }
            });
        }
    });
}

#[test]
fn a_missing_file_is_an_error_and_is_not_created() {
    let scratch = Scratch::new();
    assert!(descriptors_conflict(&scratch.database()).is_err());
    assert!(!scratch.database().exists());
    assert!(!held_by_others_here(&scratch.database()));
}

#[test]
fn only_foreign_descriptors_count_as_others() {
    let scratch = Scratch::new();
    let ours = connect(&scratch.database(), "wal");
    disconnect(connect(&scratch.database(), "wal"));
    assert!(!held_by_others_here(&scratch.database()));
    let other = Other::open(&scratch.database());
    assert!(held_by_others_here(&scratch.database()));
    drop(other);
    assert!(!held_by_others_here(&scratch.database()));
    disconnect(ours);
}

#[test]
fn names_of_companion_files_are_reserved() {
    for name in ["a-wal", "b-journal", "c-shm", "d-mj0123ABCD9"] {
        assert!(reserved_name(Path::new(name)), "{name}");
    }
    for name in ["jobs.sqlite", "wal", "journal", "-mj", "d-mj0123ABCDX", "my-mjolnir", "shm"] {
        assert!(!reserved_name(Path::new(name)), "{name}");
    }
    assert!(descriptors_conflict(Path::new("a-wal")).is_err());
}
