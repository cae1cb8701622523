//! Descriptors are parked, reused and in the end closed: their number stays bounded, and a number is never mistaken.

use std::os::fd::IntoRawFd;
use std::thread;

use super::{Other, RESERVED, Scratch, connect, count, disconnect, isolated, run};

#[test]
fn reopening_does_not_collect_descriptors() {
    let scratch = Scratch::new();
    for number in 0..1000 {
        let first = connect(&scratch.database(), "wal");
        let second = connect(&scratch.database(), "wal");
        run(&first, &format!("insert into event values ({number})"));
        disconnect(first);
        disconnect(second);
    }
    let parked = scratch.open_descriptors();
    assert!((1..=2).contains(&parked), "{parked} parked, as many as were open at once");
    let last = connect(&scratch.database(), "wal");
    assert_eq!(count(&last), 1000);
}

#[test]
fn many_threads_leave_no_more_descriptors_than_they_had_open() {
    let scratch = Scratch::new();
    disconnect(connect(&scratch.database(), "wal"));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let ours = connect(&scratch.database(), "wal");
                    run(&ours, "insert into event values (1)");
                    disconnect(ours);
                }
            });
        }
    });
    let parked = scratch.open_descriptors();
    // Four connections and the shared memory at once.
    assert!(parked <= 5, "{parked} parked");
    assert_eq!(count(&connect(&scratch.database(), "wal")), 200);
}

#[test]
fn a_deleted_database_is_really_closed() {
    let scratch = Scratch::new();
    let first = connect(&scratch.database(), "wal");
    let second = connect(&scratch.database(), "wal");
    disconnect(second);
    run(&first, "insert into event values (1)");
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(scratch.directory.path().join(format!("jobs.sqlite{suffix}"))).expect("delete");
    }
    run(&first, "insert into event values (1)");
    disconnect(first);
    assert_eq!(scratch.open_descriptors(), 0, "deleted while open: closed with the last connection");

    disconnect(connect(&scratch.database(), "delete"));
    assert_eq!(scratch.open_descriptors(), 1);
    std::fs::remove_file(scratch.database()).expect("delete");
    // Other tests' files wait in the same queue, and an open looks at some of them only.
    for _ in 0..100 {
        disconnect(connect(&scratch.directory.path().join("another.sqlite"), "delete"));
    }
    assert_eq!(scratch.open_descriptors(), 1, "deleted while parked: closed by later opens of another file");
}

#[test]
fn a_new_file_of_the_same_name_is_another_file() {
    let scratch = Scratch::new();
    for round in 0..20 {
        let ours = connect(&scratch.database(), "delete");
        assert_eq!(count(&ours), 0, "round {round} starts empty");
        run(&ours, "insert into event values (1)");
        if round % 2 == 0 {
            disconnect(ours);
            std::fs::remove_file(scratch.database()).expect("delete");
        } else {
            std::fs::remove_file(scratch.database()).expect("delete");
            disconnect(ours);
        }
    }
}

#[test]
fn a_renamed_file_keeps_its_locks_and_its_descriptors() {
    let scratch = Scratch::new();
    let moved = scratch.directory.path().join("moved.sqlite");
    disconnect(connect(&scratch.database(), "delete"));
    std::fs::rename(scratch.database(), &moved).expect("rename");
    let replacement = connect(&scratch.database(), "delete");
    run(&replacement, "begin immediate; insert into event values (1)");
    let ours = connect(&moved, "delete");
    assert_eq!(count(&ours), 0);
    run(&ours, "begin immediate; insert into event values (1)");
    assert!(Other::open(&moved).sees_lock(RESERVED));
    run(&replacement, "rollback");
    assert!(Other::open(&moved).sees_lock(RESERVED));
    assert!(!Other::open(&scratch.database()).sees_lock(RESERVED));
    run(&ours, "commit");
}

#[test]
fn a_number_that_someone_closed_and_reused_is_recognised() {
    isolated(module_path!(), "a_number_that_someone_closed_and_reused_is_recognised", || {
        // More parked files than one open looks through, so that the number is met by reuse, not by chance before it.
        let others = Scratch::new();
        for number in 0..40 {
            disconnect(connect(&others.directory.path().join(format!("{number}.sqlite")), "delete"));
        }
        let scratch = Scratch::new();
        disconnect(connect(&scratch.database(), "delete"));
        assert_eq!(scratch.open_descriptors(), 1);
        let unrelated = scratch.directory.path().join("unrelated.txt");
        std::fs::write(&unrelated, "precious").expect("write");
        for entry in std::fs::read_dir("/proc/self/fd").expect("/proc").flatten() {
            if std::fs::read_link(entry.path()).is_ok_and(|target| target == scratch.database()) {
                let number: i32 = entry.file_name().to_str().expect("a number").parse().expect("a number");
                let file = std::fs::OpenOptions::new().read(true).write(true).open(&unrelated).expect("open");
                let replacement = file.into_raw_fd();
                // SAFETY: this is the careless program: it takes a number that is not its own.
                unsafe { libc::dup2(replacement, number) };
                // SAFETY: closes the first copy.
                unsafe { libc::close(replacement) };
            }
        }
        for _ in 0..3 {
            let ours = connect(&scratch.database(), "delete");
            run(&ours, "insert into event values (1)");
            disconnect(ours);
        }
        assert_eq!(std::fs::read_to_string(&unrelated).expect("read"), "precious");
        assert_eq!(count(&connect(&scratch.database(), "delete")), 3);
    });
}

#[test]
fn a_closed_standard_stream_never_becomes_the_database() {
    isolated(module_path!(), "a_closed_standard_stream_never_becomes_the_database", || {
        let scratch = Scratch::new();
        std::fs::write(scratch.database(), "").expect("create");
        let other = Other::open(&scratch.database());
        // A byte that SQLite does not use.
        assert!(other.lock(7));
        // SAFETY: a daemon does this.
        unsafe { libc::close(0) };
        for _ in 0..5 {
            disconnect(connect(&scratch.database(), "delete"));
        }
        let target = std::fs::read_link("/proc/self/fd/0").expect("filled");
        assert_eq!(target, std::path::Path::new("/dev/null"));
        assert_eq!(scratch.open_descriptors(), 2, "the foreign one and ours");
        assert!(other.still_holds(7), "and no descriptor was closed on the way");
    });
}
